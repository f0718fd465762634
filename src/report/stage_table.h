// The table below a timeline: how busy each stage was, how late its gradients, what it sent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "report/work_history.h"

namespace leeway {

// Time that a worker worked, and the time it could have. Adds up over thousands of workers and
// months, which 64 bits of nanoseconds would not.
struct BusyTime {
  double busy_ns = 0;
  double whole_ns = 0;
  // None if there was no time to work in.
  std::optional<double> share() const;
  BusyTime& operator+=(const BusyTime& other);
};

// Overlapping pieces count once: they share one worker. Only the time that the log covers counts.
BusyTime busy_in(const WorkerHistory& lane, const TimeSpan& window);

struct StageRow {
  StageId stage;
  std::vector<BusyTime> drawn;  // one per window
  // Each session from the first backward to the end of the last forward, backward or update: before
  // that the worker can only wait, and after it the run is over.
  BusyTime after_warmup;
  double bytes_sent = 0;
  int64_t delayed = 0;  // backwards counted in delay_mean()
  double delay_sum = 0;
  int64_t delay_max = 0;

  // Only of a full pipeline: the first gradients after a flush point are early.
  std::optional<double> delay_mean() const;
  StageRow& operator+=(const StageRow& other);
};

// Adds the busy time in each window to the rows of a survey, one per stage.
void add_drawn(std::vector<StageRow>& rows, const WorkHistory& history,
               const std::vector<TimeSpan>& windows);
StageRow total(const std::vector<StageRow>& rows);

// `windows`: column headers for the busy time in each window. With several stages, the last row is
// their total.
TextTable stage_text(const std::vector<StageRow>& rows, const std::vector<std::string>& windows);

}  // namespace leeway
