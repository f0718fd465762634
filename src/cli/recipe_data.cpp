#include "cli/recipe_data.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/atomic_folder.h"
#include "base/human.h"
#include "run/recipe_data.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"

namespace leeway::cli {
namespace {

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

Path user_text_cache() {
  for (const auto& [variable, rest] : {std::pair{"XDG_CACHE_HOME", ""}, {"HOME", ".cache"}}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return Path(value) / rest / "leeway/text";
  }
  return "/tmp/leeway/text";
}

Path text_cache(const Path& run_folder) {
  return leeway::text_cache(run_folder, user_text_cache());
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
  LEEWAY_TRY(check_enough(data, recipe));
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
