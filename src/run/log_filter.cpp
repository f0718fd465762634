#include "run/log_filter.h"

namespace leeway {

LogFilter::LogFilter(LogLevel level, const RunPlan& plan) : level_(level), mesh_(plan.mesh()) {
  for (size_t at = 0; at < mesh_.count(); ++at) {
    making_.push_back(plan.first_update_of(mesh_.id(at).replica) + 1);
  }
}

bool LogFilter::keeps(const WorkRecord& record) {
  int64_t& making = making_[mesh_.index(record.worker)];
  const bool kept = logs(level_, record.work, making);
  if (record.work.kind == WorkKind::kUpdate) making = record.work.update + 1;
  return kept;
}

}  // namespace leeway
