// Small trainings on the device of these tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../support/data_files.h"
#include "../support/temporary_folder.h"
#include "../support/test_device.h"
#include "base/rng.h"
#include "run/train.h"

namespace leeway {

inline constexpr std::string_view kRecipe = R"(
[run]
updates = 200
evaluate_every = 0
evaluate_windows = 4
checkpoint_every = 0
log = "updates"
[model]
layers = 4
width = 128
heads = 4
context = 64
[data]
batch = 16
[optimizer]
warmup = 10
)";

// Words of a small vocabulary, some much more often than others: easy to learn, never to the end.
inline std::string random_words(uint64_t count) {
  const RandomKey key = {.seed = 1, .stream = Stream::kSplit};
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    const double u = random_uniform(key, i);
    text += fmt::format("w{} ", static_cast<int>(300 * u * u * u));
  }
  return text;
}

struct Trained {
  std::vector<double> losses;
  std::string weights_hash;
};

class TrainingOnDevice : public OnDevice {
 protected:
  TrainingOnDevice() { write_data(place_ / "text.txt", random_words(40'000)); }

  Trained train(std::vector<std::string> sets) {
    sets.push_back(fmt::format("data.train={}", (place_ / "text.txt").string()));
    const auto recipe = parse_recipe(kRecipe, "a test", sets);
    EXPECT_TRUE(recipe.ok()) << recipe.error().message;
    Trained trained;
    TrainOptions options = {.folder = place_ / fmt::format("run-{}", ++runs_)};
    options.observer.updated = [&](const UpdateReport& report, double) {
      trained.losses.push_back(report.loss);
      if (updated_) updated_(report);
    };
    const auto summary = leeway::train(*recipe, options);
    EXPECT_TRUE(summary.ok()) << summary.error().message;
    if (summary.ok()) {
      trained.weights_hash = nlohmann::json::parse(summary->json).at("weights_hash");
    }
    return trained;
  }
  static std::string device() { return "run.device=" + test_device(); }

  std::function<void(const UpdateReport&)> updated_;
  TemporaryFolder place_;
  int runs_ = 0;
};

}  // namespace leeway
