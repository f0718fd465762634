// Makes the workers of a run from its recipe, and hands them what was saved: the stages' parameters
// in order are the uncut layout.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "recipe/make_plan.h"
#include "worker/workers.h"

namespace leeway {

// Plan and token files must outlive the workers.
Workers make_workers(const Recipe& recipe, const MeshData& data, const RunPlan& plan);

// A worker for a place that has become empty, as make_workers() makes them.
std::unique_ptr<Worker> make_worker(const Recipe& recipe, const MeshData& data, const RunPlan& plan,
                                    WorkerId id, const Entry& entry);

int64_t parameters_of(const Workers& workers);  // in the whole model
// The whole model's weights, on the CPU: the common model, or the mean of these replicas.
at::Tensor weights_of(const Workers& workers, const ReplicaSet& members);
at::Tensor weights_of(const Workers& workers);  // of all

uint64_t hash_of(const at::Tensor& weights);

// What the run has read up to its newest update, on all its meshes.
int64_t tokens_read(const RunCounters& counters, const Recipe& recipe);

// The number of buffers per replica in a checkpoint of this run.
size_t buffer_count(const Workers& workers);
// Hands every worker its part. The caller has checked the sizes.
Status restore(const Workers& workers, const ModelState& state);

}  // namespace leeway
