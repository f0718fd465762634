#include "worker/clip_norms.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/gate.h"

namespace leeway {

ClipNorms::ClipNorms(const PipelineShape& shape, StageId stage)
    : stage_(stage), stages_(shape.synchronous() ? shape.stages : 1) {}

void ClipNorms::deliver_norms(int64_t update, StageId from, at::Tensor norms) {
  norms_[update].emplace(from, std::move(norms));
}

void ClipNorms::deliver_total(int64_t update, at::Tensor total) {
  totals_.emplace(update, std::move(total));
}

bool ClipNorms::arrived(int64_t update) const {
  if (!shared()) return true;
  if (stage_.value > 0) return totals_.contains(update);
  const auto norms = norms_.find(update);
  return norms != norms_.end() && std::ssize(norms->second) == stages_ - 1;
}

std::optional<StageId> ClipNorms::waits_for(int64_t update) const {
  if (arrived(update)) return std::nullopt;
  if (stage_.value > 0) return StageId{0};
  const auto norms = norms_.find(update);
  StageId stage = {1};
  while (norms != norms_.end() && norms->second.contains(stage)) ++stage.value;
  return stage;
}

// Added parameter by parameter in the order of the model: the same bits however it is cut.
at::Tensor ClipNorms::total(int64_t update) const {
  if (!shared()) return {};
  LEEWAY_CHECK(arrived(update), "an update waits for the norms of all stages");
  if (stage_.value > 0) return totals_.at(update);
  std::vector<at::Tensor> parts = {own_};
  for (const auto& [stage, norms] : norms_.at(update)) parts.push_back(norms);
  return sum_in_order(parts);
}

void ClipNorms::updated(int64_t update) {
  own_.reset();
  norms_.erase(norms_.begin(), norms_.upper_bound(update));
  totals_.erase(totals_.begin(), totals_.upper_bound(update));
}

}  // namespace leeway
