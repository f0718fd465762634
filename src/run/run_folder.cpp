#include "run/run_folder.h"

#include <fmt/format.h>

#include "base/names.h"
#include "run/training_run.h"

namespace leeway {
namespace fs = std::filesystem;

Result<bool> check_run_folder(const Path& folder, ExistingRun existing) {
  LEEWAY_ASSIGN(const RunFolderState state, run_folder_state(folder));
  if (existing == ExistingRun::kResume) {
    if (state != RunFolderState::kNone) return false;
    return usage_error(
        fmt::format("{} has no run to resume; drop --resume to start one", folder.string()));
  }
  if (state == RunFolderState::kNone) {
    std::error_code code;  // a missing folder counts as empty
    if (!fs::is_directory(folder, code) || fs::is_empty(folder, code)) return false;
    return usage_error(
        fmt::format("{} contains other files; choose another --out", folder.string()));
  }
  if (state == RunFolderState::kUnfinished && existing == ExistingRun::kAsk) {
    return usage_error(
        fmt::format("{} has an unfinished run; add --resume to continue it, or --fresh to move "
                    "it aside and start again",
                    folder.string()));
  }
  return true;
}

Result<Path> move_run_aside(const Path& folder) {
  constexpr int kMost = 10000;
  std::error_code code;
  for (int number = 1; number < kMost; ++number) {
    const Path aside = without_slash(folder).string() + fmt::format(".{}", number);
    if (fs::exists(aside, code)) continue;
    fs::rename(folder, aside, code);
    if (code) return file_error("move aside", folder, code.value());
    return aside;
  }
  return Error{
      fmt::format("{} has {} earlier runs next to it; remove some", folder.string(), kMost)};
}

Path text_cache(const Path& run_folder) {
  return without_slash(run_folder).parent_path() / ".text";
}

}  // namespace leeway
