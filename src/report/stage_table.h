// The numbers under a timeline: how busy each stage was, how late its gradients, what it sent.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "report/work_history.h"

namespace leeway {

// Time that a worker worked, of the time that it could have. Adds up over thousands of workers and
// months, which 64 bits of nanoseconds would not.
struct BusyTime {
  double busy_ns = 0;
  double whole_ns = 0;
  // Nothing where there was no time to work in.
  std::optional<double> share() const;
  BusyTime& operator+=(const BusyTime& other);
};

// Overlapping pieces count once: they share one worker.
BusyTime busy_in(const WorkerHistory& lane, const TimeSpan& window);

// In each session from the first backward to the end of the last forward, backward or update:
// before the first there is nothing to do but to wait for it, and after the last the run is over.
BusyTime busy_after_warmup(const WorkerHistory& lane);

struct StageRow {
  StageId stage;
  std::vector<BusyTime> drawn;  // one per window
  BusyTime after_warmup;
  double bytes_sent = 0;
  int64_t delayed = 0;  // backwards that delay_mean() is about
  double delay_sum = 0;
  int64_t delay_max = 0;
  std::array<int64_t, kWorkKinds> counts{};

  // Once the pipeline is full: the first gradients after a flush point are early.
  std::optional<double> delay_mean() const;
  StageRow& operator+=(const StageRow& other);
};

// One row per stage, all replicas together. Windows apart, the numbers are of the whole run.
std::vector<StageRow> measure_stages(const WorkHistory& history,
                                     const std::vector<TimeSpan>& windows);
StageRow total(const std::vector<StageRow>& rows);

enum class TableWidth { kShort, kWithCounts };
// `windows`: the headers of the columns of busy time in each window. The last row is all stages
// together where there are several.
TextTable stage_text(const std::vector<StageRow>& rows, const std::vector<std::string>& windows,
                     TableWidth width);

}  // namespace leeway
