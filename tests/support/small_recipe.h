// A recipe of a tiny model, on text that it writes beside the run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "data_files.h"
#include "small_text.h"

namespace leeway {

constexpr std::string_view kSmallRecipe = R"(
[run]
updates = 12
evaluate_every = 0
evaluate_windows = 4
checkpoint_every = 0
threads_per_worker = 1
[model]
layers = 2
width = 8
heads = 1
context = 8
[data]
train = ["TEXT"]
batch = 2
valid_share = 0.2
[mesh]
stages = 2
replicas = 2
[averaging]
merge = "fixed_lag"
)";

inline void write_small_text(const Path& folder) {
  const std::vector<std::string> texts = small_texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    write_data(folder / (std::to_string(i) + ".txt"), texts[i]);
  }
}

// `text`: the folder that write_small_text() has filled.
inline Result<LoadedRecipe> small_recipe(const Path& text,
                                         const std::vector<std::string>& sets = {}) {
  std::string toml(kSmallRecipe);
  toml.replace(toml.find("TEXT"), 4, text.string());
  return parse_recipe(toml, "a test", sets);
}

}  // namespace leeway
