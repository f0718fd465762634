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

// What a mesh of this recipe has, without making its workers.
struct MeshSize {
  ModelShape shape;
  std::vector<int64_t> stages;  // parameters of each
  int64_t parameters = 0;       // of the whole model
  size_t buffers = 0;           // per replica in a checkpoint of this run, of the model's size
};
MeshSize mesh_size(const Recipe& recipe, int64_t vocabulary);

int64_t parameters_of(const Workers& workers);  // in the whole model
// The whole model's weights, on the CPU: the common model, or the mean of these replicas.
at::Tensor weights_of(const Workers& workers, const ReplicaSet& members);
at::Tensor weights_of(const Workers& workers);  // of all

uint64_t hash_of(const at::Tensor& weights);

// What the run has read up to its newest update, on all its meshes.
int64_t tokens_read(const RunCounters& counters, const Recipe& recipe);

// A worker's part of the model that a session begins with; the caller has checked the sizes.
StageState part_of(const ModelState& state, const MeshSize& mesh, WorkerId worker);
// Hands every worker its part.
Status restore(const Workers& workers, const Recipe& recipe, const ModelState& state);

}  // namespace leeway
