#include "run/recipe_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/names.h"
#include "data/sampler.h"

namespace leeway {
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

}  // namespace

DataSpec data_spec(const Recipe& recipe) {
  return {.train = recipe.data.train,
          .valid = recipe.data.valid,
          .tokenizer = recipe.data.tokenizer,
          .valid_share = recipe.data.valid_share,
          .context = recipe.model.context};
}

Status check_enough(const TokenFile* train, const TokenFile* valid, const Recipe& recipe) {
  if (train != nullptr) LEEWAY_TRY(check_windows(*train, recipe.model.context));
  if (train != nullptr && recipe.data.own_parts) LEEWAY_TRY(check_parts(*train, recipe));
  if (valid != nullptr) LEEWAY_TRY(check_windows(*valid, recipe.model.context));
  return {};
}

Status check_enough(const Dataset& data, const Recipe& recipe) {
  return check_enough(&data.train, data.valid ? &*data.valid : nullptr, recipe);
}

Path text_cache(const Path& run_folder, const Path& otherwise) {
  const Path beside = without_slash(run_folder).parent_path() / ".text";
  return can_write_in(beside) ? beside : otherwise;
}

}  // namespace leeway
