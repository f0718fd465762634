// The workers of a run as its recipe asks for them, and the whole model seen through them: stages
// one after the other are the uncut layout.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "config/recipe.h"
#include "data/token_file.h"
#include "worker/run_plan.h"
#include "worker/saved_state.h"
#include "worker/worker.h"

namespace leeway {

struct MeshData {
  const TokenFile& train;
  const TokenFile* valid = nullptr;  // null: no validation
  int64_t vocabulary = 0;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

// The whole run in one sitting; who wants less moves first_update and last_update.
RunPlan make_plan(const Recipe& recipe, const MeshData& data);
// The same where there is no data: `evaluation_batches` of one evaluation, 0 for none at all.
RunPlan make_plan(const Recipe& recipe, int64_t vocabulary, int64_t evaluation_batches);

// Plan and token files outlive the workers.
Workers make_workers(const Recipe& recipe, const MeshData& data, const RunPlan& plan);

// Workers that go through all the motions and compute nothing; the plan outlives them.
Workers make_workers_without_numbers(const RunPlan& plan, int64_t replicas);

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
