#include "run/log_filter.h"

namespace leeway {

LogFilter::LogFilter(LogLevel level, const RunPlan& plan)
    : level_(level), stages_(plan.shape.stages) {
  for (int64_t worker = 0; worker < stages_ * plan.replicas; ++worker) {
    making_.push_back(plan.first_update_of({worker / stages_}) + 1);
  }
}

bool LogFilter::keeps(const WorkRecord& record) {
  const WorkerId id = record.worker;
  int64_t& making = making_[static_cast<size_t>(id.replica.value * stages_ + id.stage.value)];
  const bool kept = logs(level_, record.work, making);
  if (record.work.kind == WorkKind::kUpdate) making = record.work.update + 1;
  return kept;
}

}  // namespace leeway
