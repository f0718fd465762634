#include "cli/recipe_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/human.h"
#include "base/names.h"
#include "data/sampler.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

Status check_parts(const TokenFile& train, const Recipe& recipe) {
  const uint64_t windows = window_count_of(train.info().count, recipe.model.context);
  if (windows >= static_cast<uint64_t>(recipe.mesh.replicas)) return {};
  return Error{
      fmt::format("{} has {} windows of model.context {}, fewer than the {} replicas that "
                  "data.own_parts splits them among; add text, or set data.own_parts to false",
                  train.path().string(), windows, recipe.model.context, recipe.mesh.replicas)};
}

bool can_write_in(Path folder) {
  std::error_code code;
  while (!folder.empty() && !std::filesystem::exists(folder, code)) folder = folder.parent_path();
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
}

Path user_cache() {
  for (const auto& [variable, rest] : {std::pair{"XDG_CACHE_HOME", ""}, {"HOME", ".cache"}}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return Path(value) / rest / "leeway";
  }
  return "/tmp/leeway";
}

}  // namespace

Path text_cache(const Path& run_folder) {
  const Path beside = without_slash(run_folder).parent_path() / ".text";
  return can_write_in(beside) ? beside : user_cache() / "text";
}

Result<Dataset> read_data(const Recipe& recipe, const Path& folder, const Clock& clock) {
  Progress progress(clock, "reading text", 0);
  return open_dataset({.train = recipe.data.train,
                       .valid = recipe.data.valid,
                       .tokenizer = recipe.data.tokenizer,
                       .valid_share = recipe.data.valid_share,
                       .context = recipe.model.context},
                      text_cache(folder), [&](uint64_t done, uint64_t) {
                        progress.show(done, human_bytes(done));
                        return !interrupted();
                      });
}

Result<Dataset> open_data(const Recipe& recipe, const Path& folder, const Clock& clock) {
  LEEWAY_ASSIGN(Dataset data, read_data(recipe, folder, clock));
  for (const std::string& note : data.notes) fmt::print(stderr, "{}\n", note);
  LEEWAY_TRY(check_windows(data.train, recipe.model.context));
  if (recipe.data.own_parts) LEEWAY_TRY(check_parts(data.train, recipe));
  if (data.valid) LEEWAY_TRY(check_windows(*data.valid, recipe.model.context));
  return data;
}

}  // namespace leeway::cli
