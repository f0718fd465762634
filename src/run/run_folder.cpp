#include "run/run_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/names.h"
#include "events/event_log.h"

namespace leeway {
namespace fs = std::filesystem;

namespace {

// What processes of a run have printed may be there though it never began.
bool is_empty_but_for_the_lock(const Path& folder) {
  std::error_code code;  // a missing folder counts as empty
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const Path name = it->path().filename();
    if (name != kLockFile && name != "processes") return false;
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

// What a run has logged of where it was started; empty: nothing.
Path start_of(const Path& run_folder) {
  const std::optional<Event> started = first_event(run_folder / "events.jsonl");
  const Path start = started ? started->text("start").value_or("") : "";
  return start.empty() ? Path() : run_folder / start;
}

// A glob leads somewhere if the folder does in which it begins.
bool leads_somewhere(const Path& path) {
  Path known;
  for (const Path& part : path) {
    if (part.string().find_first_of("*?[") != std::string::npos) break;
    known /= part;
  }
  std::error_code code;
  return known.empty() || fs::exists(known, code);
}

void find_from(const Path& start, std::string& name) {
  if (Path(name).is_absolute() || !leads_somewhere(start / name)) return;
  name = (start / name).lexically_proximate(".").string();
}

}  // namespace

Result<RunFolderState> run_folder_state(const Path& folder) {
  std::error_code code;
  const bool began = fs::exists(folder / "config.toml", code);
  // If part of the path is a file, make_folder() reports it.
  if (code && code != std::errc::not_a_directory) {
    return file_error("read", folder, code.value());
  }
  if (!began) return RunFolderState::kNone;
  const Result<std::string> text = read_text(folder / "summary.json");
  if (!text) return RunFolderState::kUnfinished;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto finished = json.is_object() ? json.find("finished") : json.end();
  const bool done = finished != json.end() && finished->is_boolean() && finished->get<bool>();
  return done ? RunFolderState::kFinished : RunFolderState::kUnfinished;
}

Result<std::optional<HeldFolder>> hold_existing_run(const Path& folder, ExistingRun existing) {
  LEEWAY_ASSIGN(RunFolderState state, run_folder_state(folder));
  if (state == RunFolderState::kNone && existing == ExistingRun::kResume) {
    return usage_error(
        fmt::format("{} has no run to resume; drop --resume to start one", folder.string()));
  }
  if (state == RunFolderState::kNone) {
    if (const auto holder = holder_of(folder)) {
      return Error{
          fmt::format("{} is in use by {}; choose another --out", folder.string(), *holder)};
    }
    if (is_empty_but_for_the_lock(folder)) return std::optional<HeldFolder>();
    return usage_error(
        fmt::format("{} contains other files; choose another --out", folder.string()));
  }
  LEEWAY_ASSIGN(HeldFolder held, HeldFolder::hold(folder));
  LEEWAY_ASSIGN(state, run_folder_state(folder));  // its holder may have just finished it
  if (state == RunFolderState::kUnfinished && existing == ExistingRun::kAsk) {
    return usage_error(
        fmt::format("{} has an unfinished run; add --resume to continue it, or --fresh to move "
                    "it aside and start again",
                    folder.string()));
  }
  return std::optional<HeldFolder>(std::move(held));
}

Result<NewRun> begin_run(const Path& folder, std::optional<HeldFolder> earlier) {
  std::optional<Path> aside;
  if (earlier) {
    LEEWAY_ASSIGN(aside, move_run_aside(folder));
  }
  LEEWAY_ASSIGN(HeldFolder held, HeldFolder::hold(folder));
  if (!is_empty_but_for_the_lock(folder)) {
    return Error{fmt::format("another process has just begun a run in {}; choose another --out",
                             folder.string())};
  }
  return NewRun{std::move(held), std::move(aside)};
}

Status copy_if_there(const Path& from, const Path& to) {
  std::error_code code;
  if (!fs::is_regular_file(from, code)) return {};
  LEEWAY_ASSIGN(const std::string content, read_text(from));
  return write_atomically(to, content);
}

Status copy_tokenizer(const Path& from, const Path& to) {
  std::error_code code;
  if (!fs::is_directory(from, code)) return {};
  LEEWAY_TRY(make_folder(to));
  for (fs::directory_iterator it(from, code), end; !code && it != end; it.increment(code)) {
    LEEWAY_TRY(copy_if_there(it->path(), to / it->path().filename()));
  }
  return code ? Status(file_error("read", from, code.value())) : Status();
}

std::string way_to_start(const Path& run_folder) {
  std::error_code code;
  const Path way = fs::relative(fs::current_path(code), run_folder, code);
  return code ? "" : way.string();
}

Recipe with_data_found(Recipe recipe, const Path& run_folder) {
  const Path start = start_of(run_folder);
  if (start.empty()) return recipe;
  for (std::string& name : recipe.data.train) find_from(start, name);
  for (std::string& name : recipe.data.valid) find_from(start, name);
  std::string& tokenizer = recipe.data.tokenizer;
  if (const size_t colon = tokenizer.find(':'); colon != std::string::npos) {
    std::string path = tokenizer.substr(colon + 1);
    find_from(start, path);
    tokenizer.replace(colon + 1, std::string::npos, path);
  }
  return recipe;
}

}  // namespace leeway
