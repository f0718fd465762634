// The pieces of work in a run's event log, read as often as needed instead of kept.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/log_files.h"
#include "events/log_level.h"
#include "report/work_history.h"
#include "report/work_survey.h"

namespace leeway {

class WorkLog {
 public:
  // An error if this is not a run folder, or has no log.
  static Result<WorkLog> open(const Path& run_folder);

  // An error names the line if there is one. Reads the whole log.
  Result<WorkSurvey> survey() const;
  // The pieces inside these spans, with a lane for every worker of the survey.
  Result<WorkHistory> history(const WorkSurvey& survey, const std::vector<TimeSpan>& spans) const;

  // Every piece with a part in one of the spans that no later session repeated, in the log's order.
  // No spans: all of them.
  using Use = std::function<Status(const WorkRecord& record, std::optional<size_t> stretch)>;
  Status each(const std::vector<TimeSpan>& spans, const Use& use) const;

 private:
  struct Seen {
    bool cut = false;        // the log ends in an incomplete line, which is left out
    bool has_ticks = false;  // it is that of one process of several
  };

  explicit WorkLog(Path log) : log_(std::move(log)) {}
  Result<Seen> read(const std::vector<TimeSpan>& spans, const Use& use,
                    const std::function<void(const Event&)>& other) const;

  Path log_;
  std::vector<Event> resumes_;
  LogPosition end_;  // what the run adds later is not read
};

}  // namespace leeway
