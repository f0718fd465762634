#include "cli/recipe_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/atomic_folder.h"
#include "base/human.h"
#include "base/names.h"
#include "data/sampler.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"

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

DataSpec data_spec(const Recipe& recipe) {
  return {.train = recipe.data.train,
          .valid = recipe.data.valid,
          .tokenizer = recipe.data.tokenizer,
          .valid_share = recipe.data.valid_share,
          .context = recipe.model.context};
}

// Null: not known yet, or none.
Status check_enough(const TokenFile* train, const TokenFile* valid, const Recipe& recipe) {
  if (train != nullptr) LEEWAY_TRY(check_windows(*train, recipe.model.context));
  if (train != nullptr && recipe.data.own_parts) LEEWAY_TRY(check_parts(*train, recipe));
  if (valid != nullptr) LEEWAY_TRY(check_windows(*valid, recipe.model.context));
  return {};
}

const TokenFile* pointer(const std::optional<TokenFile>& file) { return file ? &*file : nullptr; }

// Names the text, not the file that it was prepared into, which is gone when the user reads this.
Error about_text(Error error, const Path& scratch) {
  constexpr std::string_view kEnd = ".tokens";
  const size_t begin = error.message.find(scratch.string());
  const size_t end = error.message.find(kEnd, begin);
  if (begin == std::string::npos || end == std::string::npos) return error;
  error.message.replace(begin, end + kEnd.size() - begin, "the text");
  return error;
}

// A folder for text that is prepared only to be checked; none if nothing can be written there.
std::optional<AtomicFolder> scratch_folder() {
  std::error_code code;
  const Path place = std::filesystem::temp_directory_path(code);
  if (code) return std::nullopt;
  auto folder = AtomicFolder::create(place / "leeway-check");
  return folder.ok() ? std::optional<AtomicFolder>(std::move(*folder)) : std::nullopt;
}

}  // namespace

Path text_cache(const Path& run_folder) {
  const Path beside = without_slash(run_folder).parent_path() / ".text";
  return can_write_in(beside) ? beside : user_cache() / "text";
}

Result<Dataset> read_data(const Recipe& recipe, const Path& folder, const Clock& clock) {
  Progress progress(clock, "reading text", 0);
  return open_dataset(data_spec(recipe), text_cache(folder), [&](uint64_t done, uint64_t) {
    progress.show(done, human_bytes(done));
    return !interrupted();
  });
}

Result<Dataset> open_data(const Recipe& recipe, const Path& folder, const Clock& clock) {
  LEEWAY_ASSIGN(Dataset data, read_data(recipe, folder, clock));
  for (const std::string& note : data.notes) say(note + "\n");
  LEEWAY_TRY(check_enough(&data.train, pointer(data.valid), recipe));
  return data;
}

Result<DataLook> look_at_data(const Recipe& recipe, const Clock& clock) {
  LEEWAY_ASSIGN(const DataGlance glance, glance_at_dataset(data_spec(recipe)));
  const auto scratch = glance.small ? scratch_folder() : std::nullopt;
  if (scratch) {
    const auto data = open_data(recipe, scratch->path() / "run", clock);
    if (!data) return about_text(data.error(), scratch->path());
    return DataLook{.vocabulary = data->vocabulary, .thorough = true};
  }
  LEEWAY_TRY(check_enough(pointer(glance.train), pointer(glance.valid), recipe));
  return DataLook{.vocabulary = glance.vocabulary};
}

}  // namespace leeway::cli
