#include "pipeline/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace leeway {

Schedule::Schedule(const PipelineShape& shape, StageId stage)
    : update_every_(shape.update_every), synchronous_(shape.synchronous()) {
  LEEWAY_CHECK(stage.value >= 0 && stage.value < shape.stages, "a stage of this pipeline");
  LEEWAY_CHECK(update_every_ > 0, "an update has at least one microbatch");
  const int64_t hops = shape.stages - 1 - stage.value;
  warmup_ = shape.order == PipelineSchedule::kGpipe ? update_every_ - 1
                                                    : hops * (1 + shape.extra_per_hop);
}

int64_t Schedule::expected_delay(int64_t m) const {
  if (synchronous_) return 0;
  return m / update_every_ - std::max<int64_t>(m - warmup_, 0) / update_every_;
}

int64_t Schedule::delay_max() const {
  return synchronous_ ? 0 : (warmup_ + update_every_ - 1) / update_every_;
}

double Schedule::delay_mean() const {
  return synchronous_ ? 0.0 : static_cast<double>(warmup_) / static_cast<double>(update_every_);
}

}  // namespace leeway
