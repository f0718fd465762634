// Clipping by the norm of the whole model, which synchronous schedules do: every stage sends stage
// 0 the squared norms of its gradients, stage 0 adds them up and sends the total back. The update
// waits for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "pipeline/schedule.h"

namespace leeway {

class ClipNorms {
 public:
  ClipNorms(const PipelineShape& shape, StageId stage);

  // False: each stage clips by its own norm, and nothing is sent.
  bool shared() const { return stages_ > 1; }

  // From another stage, for update `update`.
  void deliver_norms(int64_t update, StageId from, at::Tensor norms);
  void deliver_total(int64_t update, at::Tensor total);

  // This stage's own norms for the next update; undefined without compute.
  void set_own(at::Tensor norms) { own_ = std::move(norms); }
  const at::Tensor& own() const { return own_; }

  // Whether everything that this stage waits for before `update` has arrived.
  bool arrived(int64_t update) const;
  // A stage from which something has not arrived; none: everything has.
  std::optional<StageId> waits_for(int64_t update) const;
  // The squared norm of the model's gradients, fp64 [1]; undefined if norms are not shared.
  at::Tensor total(int64_t update) const;
  void updated(int64_t update);  // what was sent for it is no longer needed

 private:
  StageId stage_;
  int64_t stages_ = 1;  // stages that share their norms
  at::Tensor own_;
  std::map<int64_t, std::map<StageId, at::Tensor>> norms_;  // stage 0: by update and stage
  std::map<int64_t, at::Tensor> totals_;                    // other stages: by update
};

}  // namespace leeway
