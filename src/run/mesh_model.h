// The workers of a run as its recipe asks for them, and the whole model seen through them: stages
// one after the other are the uncut layout.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "recipe/run_plan.h"
#include "worker/workers.h"

namespace leeway {

// Plan and token files outlive the workers.
Workers make_workers(const Recipe& recipe, const MeshData& data, const RunPlan& plan);

int64_t parameters_of(const Workers& workers);  // of the model
// Of the model, on the CPU: the mean of the replicas.
at::Tensor weights_of(const Workers& workers);

// The whole model's state from that of all workers, replica after replica, stage after stage.
ModelState join(const std::vector<StageState>& states, int64_t stages);
// The number of buffers that a checkpoint of this run has for each replica.
size_t buffer_count(const Workers& workers);
// Hands every worker its part. Sizes are the caller's care.
Status restore(const Workers& workers, const ModelState& state);

}  // namespace leeway
