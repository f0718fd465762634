// The whole model's state from those of all workers, as a checkpoint would have it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "averaging/merge.h"
#include "checkpoint/saved_run.h"
#include "compute/stage_reports.h"

namespace leeway {

inline ReplicaState join_replica(std::span<const StageState> stages) {
  ReplicaState whole = {.weights = {}, .optimizer = stages.front().optimizer, .rounds = {}};
  std::vector<at::Tensor> weights;
  for (const StageState& stage : stages) {
    weights.push_back(stage.weights);
    whole.rounds.push_back(stage.rounds);
  }
  whole.weights = at::cat(weights);
  for (size_t b = 0; b < whole.optimizer.buffers.size(); ++b) {
    std::vector<at::Tensor> parts;
    for (const StageState& stage : stages) parts.push_back(stage.optimizer.buffers[b].second);
    whole.optimizer.buffers[b].second = at::cat(parts);
  }
  return whole;
}

// Replica after replica, stage after stage.
inline ModelState join(const std::vector<StageState>& states, int64_t stages) {
  ModelState model;
  std::vector<at::Tensor> weights;
  for (size_t first = 0; first < states.size(); first += static_cast<size_t>(stages)) {
    model.replicas.push_back(
        join_replica(std::span(states).subspan(first, static_cast<size_t>(stages))));
    weights.push_back(model.replicas.back().weights);
  }
  model.weights = weights.size() == 1 ? weights.front() : mean_of(weights);
  return model;
}

}  // namespace leeway
