#include "fleet/fleet_logs.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <system_error>

#include "events/merge_logs.h"

namespace leeway {
namespace fs = std::filesystem;
namespace {

Path incoming_of(const Path& run_folder) { return run_folder / "logs" / "incoming"; }

std::string folder_of(ProcessId process) { return fmt::format("process-{}", process.value); }

std::vector<Path> log_files_in(const Path& folder) {
  std::vector<Path> files;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored)) {
    if (file.path().filename().string().starts_with("events.jsonl")) files.push_back(file.path());
  }
  return files;
}

Status move_logs(const Path& from, const Path& to) {
  LEEWAY_TRY(make_folder(to));
  for (const Path& file : log_files_in(from)) {
    std::error_code code;
    fs::rename(file, to / file.filename(), code);
    if (code) return file_error("move", file, code.value());
  }
  return {};
}

}  // namespace

Status store_log_part(const Path& run_folder, ProcessId process, const std::string& file,
                      int64_t begin, std::span<const std::byte> bytes) {
  const Path folder = incoming_of(run_folder) / folder_of(process);
  LEEWAY_TRY(make_folder(folder));
  const Path path = folder / file;
  std::error_code ignored;
  const auto size =
      static_cast<int64_t>(fs::exists(path, ignored) ? fs::file_size(path, ignored) : 0);
  if (begin > size) return Error{"a part of it is missing"};
  // One that comes again takes the place of what came before.
  if (begin > 0 && begin < size) fs::resize_file(path, static_cast<uintmax_t>(begin), ignored);
  std::ofstream out(path, std::ios::binary | (begin == 0 ? std::ios::trunc : std::ios::app));
  out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  out.close();
  return out ? Status() : Status(Error{fmt::format("cannot write {}", path.string())});
}

Result<std::vector<std::string>> merge_fleet_logs(const Path& run_folder, const std::string& run,
                                                  const std::map<ProcessId, std::string>& processes,
                                                  int64_t sessions) {
  std::vector<std::string> missing;
  std::vector<Path> logs = {run_folder / "events.jsonl"};
  for (const auto& [process, name] : processes) {
    // One that was killed has sent nothing; if its folder is on this machine, its log is there.
    const Path sent = incoming_of(run_folder) / folder_of(process) / "events.jsonl";
    const Path own = run_folder / "processes" / run / folder_of(process) / "events.jsonl";
    if (log_end(sent)) {
      logs.push_back(sent);
    } else if (log_end(own)) {
      logs.push_back(own);
    } else {
      missing.push_back(fmt::format("the log of {} is missing: its work is in no timeline", name));
    }
  }
  if (logs.size() == 1) return missing;
  const Path merged = run_folder / "logs" / "merged";
  LEEWAY_TRY(remove_tree(merged));
  LEEWAY_TRY(make_folder(merged));
  LEEWAY_ASSIGN(const MergedLog result, merge_logs(logs, merged / "events.jsonl"));
  for (const std::string& warning : result.warnings) missing.push_back(warning);
  const Path kept = run_folder / "logs" / fmt::format("session-{}", sessions);
  LEEWAY_TRY(move_logs(run_folder, kept / "coordinator"));
  LEEWAY_TRY(move_logs(merged, run_folder));
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(incoming_of(run_folder), ignored)) {
    fs::rename(folder.path(), kept / folder.path().filename(), ignored);
  }
  static_cast<void>(remove_tree(merged));
  static_cast<void>(remove_tree(incoming_of(run_folder)));
  return missing;
}

}  // namespace leeway
