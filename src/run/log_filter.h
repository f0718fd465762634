// Chooses which pieces of work a session writes to its log, by `run.log`.
#pragma once

#include <cstdint>
#include <vector>

#include "events/log_level.h"
#include "worker/run_plan.h"

namespace leeway {

class LogFilter {
 public:
  LogFilter(LogLevel level, const RunPlan& plan);

  // Must see every piece of every worker, in order.
  bool keeps(const WorkRecord& record);
  bool keeps_predictions_of(int64_t update) const { return logs_work_of(level_, update); }

 private:
  LogLevel level_;
  Mesh mesh_;
  std::vector<int64_t> making_;  // the next update of each worker
};

}  // namespace leeway
