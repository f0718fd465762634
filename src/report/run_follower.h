// Reads a run folder: once for a report, or repeatedly while the run is in progress.
#pragma once

#include <optional>
#include <vector>

#include "base/files.h"
#include "events/event_log.h"
#include "report/run_data.h"
#include "report/run_reader.h"

namespace leeway {

class RunFollower {
 public:
  // Not a run folder: a usage error.
  static Result<RunFollower> open(const Path& folder, const RunLimits& limits);

  // Reads complete lines added since the last call; returns whether there were any. A log that was
  // replaced or continued by --resume is read from its start. Errors name file and line.
  Result<bool> poll();
  // Says nothing about whether an unfinished run still goes on: see unfinished_note().
  RunData data() const;

 private:
  RunFollower(Path folder, const RunLimits& limits);
  void start_again();
  Result<bool> find_resumes(const LogPosition& end);
  Status read_to(const LogPosition& end);

  Path folder_;
  RunLimits limits_;
  std::vector<std::pair<std::string, std::string>> config_;
  std::vector<std::string> notes_;  // about the folder
  std::vector<Event> resumes_;
  std::optional<RunReader> reader_;
  LogPosition position_;  // of the first unread byte
  bool has_log_ = false;
  bool cut_ = false;
  bool broken_ = false;  // a line is not an event: read everything again, in case it was fixed
};

Result<RunData> read_run(const Path& folder, const RunLimits& limits);

// Short names for the runs of one page: the folder's name, or its whole path if two are the same.
void name_runs(std::vector<RunData>& runs);

}  // namespace leeway
