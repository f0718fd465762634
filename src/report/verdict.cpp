#include "report/verdict.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace leeway {
namespace {

// How the two validations differ, of what is known about both.
std::string differences(const RunData& run, const RunData& against) {
  const auto windows = [](const RunData& of) {
    return of.validation.windows > 0 ? fmt::format("{}", of.validation.windows) : "";
  };
  const std::array<std::array<std::string, 3>, 4> facts = {{
      {"text", run.validation.text_hash, against.validation.text_hash},
      {"tokenizer", run.validation.tokenizer_hash, against.validation.tokenizer_hash},
      {"context", run.setting("model.context"), against.setting("model.context")},
      {"number of windows", windows(run), windows(against)},
  }};
  std::string text;
  for (const auto& [name, own, other] : facts) {
    if (own.empty() || other.empty() || own == other) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
  return text;
}

std::string loss_line(const RunData& run, const RunData& against) {
  const auto& own = run.headline.valid_loss;
  const auto& other = against.headline.valid_loss;
  if (!own || !other) {
    return fmt::format("loss   {} has no validation loss to compare", (own ? against : run).name);
  }
  if (const std::string different = differences(run, against); !different.empty()) {
    return fmt::format(
        "loss   {:.4f} against {:.4f} of {}: not comparable, because validation had a different {}",
        *own, *other, against.name, different);
  }
  const double percent = 100 * (*own / *other - 1);
  const std::string distance =
      std::abs(percent) < 0.05 ? "the same" : fmt::format("{:+.1f} %", percent);
  const int64_t tokens = run.headline.tokens;
  const int64_t other_tokens = against.headline.tokens;
  const std::string after =
      tokens == other_tokens
          ? "after the same tokens"
          : fmt::format("after {} and {} tokens, so not comparable", tokens, other_tokens);
  return fmt::format("loss   {:.4f} against {:.4f} of {}: {}, {}", *own, *other, against.name,
                     distance, after);
}

std::string bytes_line(const RunData& run) {
  const auto sent = run.headline.bytes[static_cast<size_t>(Purpose::kAveraging)];
  const auto share = run.headline.traffic_share();
  if (!share) return "bytes  one replica: nothing to average";
  return fmt::format("bytes  {:.1f} MB of averaging, {:.1f} % of an all-reduce's {:.1f} MB",
                     static_cast<double>(sent) / 1e6, 100 * *share,
                     static_cast<double>(*run.headline.bytes_allreduce) / 1e6);
}

std::string busy_line(const RunData& run, const RunData& against) {
  const auto text = [](const std::optional<double>& busy) {
    return busy ? fmt::format("{:.0f} %", 100 * *busy) : std::string("unknown");
  };
  const auto time = [](const RunData& of) {
    return of.setting("run.driver") == "sim" ? "simulated time" : "the time";
  };
  const std::string line = fmt::format("busy   {} of {}, {}", text(run.headline.busy), time(run),
                                       text(against.headline.busy));
  if (std::string_view(time(run)) == time(against)) {
    return fmt::format("{} in {}", line, against.name);
  }
  return fmt::format("{} of {} in {}: these clocks are not comparable", line, time(against),
                     against.name);
}

}  // namespace

std::vector<std::string> verdict(const RunData& run, const RunData& against) {
  return {loss_line(run, against), bytes_line(run), busy_line(run, against)};
}

}  // namespace leeway
