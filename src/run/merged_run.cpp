#include "run/merged_run.h"

#include <fmt/format.h>

#include <system_error>

#include "base/atomic_folder.h"
#include "base/names.h"
#include "config/load.h"
#include "run/run_folder.h"

namespace leeway {
namespace {

Path log_in(const Path& given) {
  std::error_code code;
  return std::filesystem::is_directory(given, code) ? given / "events.jsonl" : given;
}

Status check_request(const RunMergeRequest& request) {
  std::error_code code;
  const auto status = std::filesystem::symlink_status(request.out, code);
  const bool is_empty_folder =
      std::filesystem::is_directory(status) && std::filesystem::is_empty(request.out, code);
  if (std::filesystem::exists(status) && !is_empty_folder) {
    return usage_error(fmt::format("--out {} exists; choose another name", request.out.string()));
  }
  if (const auto first = first_event(log_in(request.run)); first && first->kind() == "joined") {
    return usage_error(
        fmt::format("{} is not the folder of the coordinator's process, which must be named first",
                    request.run.string()));
  }
  LEEWAY_ASSIGN(const RunFolderState state, run_folder_state(request.run));
  if (state != RunFolderState::kNone) return {};
  return usage_error(
      fmt::format("{} is not a run folder; name first that of the coordinator's process, which "
                  "`leeway train --out` wrote",
                  request.run.string()));
}

// The way from the merged folder to where the run was started: replays look for the data there.
std::optional<std::string> start_from(const RunMergeRequest& request) {
  const std::optional<Event> started = first_event(log_in(request.run));
  const auto start = started ? started->text("start") : std::nullopt;
  if (!start || start->empty()) return std::nullopt;
  std::error_code code;
  const Path from = std::filesystem::absolute(request.out, code);  // it does not exist yet
  const Path way = std::filesystem::relative(request.run / *start, from, code);
  return way.empty() ? std::nullopt : std::optional(way.string());
}

// A log that was not named leaves no other trace.
std::optional<std::string> missing_work(const MergedLog& merged, const Recipe& recipe) {
  for (int64_t r = 0; r < recipe.mesh.replicas; ++r) {
    for (int64_t s = 0; s < recipe.mesh.stages; ++s) {
      if (merged.workers.contains({.replica = {r}, .stage = {s}})) continue;
      return fmt::format(
          "no log has the work of replica {}, stage {}: name the logs of all processes, or the "
          "merged run is not the whole one",
          r, s);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<MergedLog> merge_run(const RunMergeRequest& request,
                            const std::function<Status(uint64_t done, uint64_t total)>& progress) {
  LEEWAY_TRY(check_request(request));
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(request.run / "config.toml", {}));
  std::vector<Path> logs = {log_in(request.run)};
  for (const Path& other : request.others) logs.push_back(log_in(other));
  LEEWAY_ASSIGN(AtomicFolder folder, AtomicFolder::create(request.out));
  LEEWAY_ASSIGN(MergedLog merged, merge_logs(logs, folder.path() / "events.jsonl",
                                             {.progress = progress, .start = start_from(request)}));
  for (const char* name : {"config.toml", "summary.json"}) {
    LEEWAY_TRY(copy_if_there(request.run / name, folder.path() / name));
  }
  LEEWAY_TRY(copy_tokenizer(request.run / "tokenizer", folder.path() / "tokenizer"));
  if (auto missing = missing_work(merged, loaded.recipe)) merged.warnings.push_back(*missing);
  LEEWAY_TRY(folder.commit());
  return merged;
}

}  // namespace leeway
