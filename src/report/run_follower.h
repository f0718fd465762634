// Reads a run folder: once for a report, or again and again while the run goes on.
#pragma once

#include <optional>
#include <vector>

#include "base/files.h"
#include "report/run_data.h"
#include "report/run_reader.h"

namespace leeway {

class RunFollower {
 public:
  // What is no run folder is the user's error.
  static Result<RunFollower> open(const Path& folder, const RunLimits& limits);

  // Reads the whole lines that were added since the last call; whether there were any. A log that
  // was replaced, or went on with --resume, is read from its start. Errors name file and line.
  Result<bool> poll();
  RunData data() const;

 private:
  RunFollower(Path folder, const RunLimits& limits);
  void start_again();
  Result<bool> find_resumes(uint64_t end);
  Status read_to(uint64_t end);

  Path folder_;
  RunLimits limits_;
  std::vector<std::pair<std::string, std::string>> config_;
  std::vector<std::string> notes_;  // about the folder
  std::vector<Event> resumes_;
  std::optional<RunReader> reader_;
  uint64_t offset_ = 0;  // of the first byte that is not read
  uint64_t lines_ = 0;   // read
  bool has_log_ = false;
  bool cut_ = false;
  bool broken_ = false;  // a line is no event: all is read again, in case that it was mended
};

Result<RunData> read_run(const Path& folder, const RunLimits& limits);

// Short names for the runs of one page: the folder's own, or the whole path where two are the same.
void name_runs(std::vector<RunData>& runs);

}  // namespace leeway
