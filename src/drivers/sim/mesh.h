// The mesh that the workers of a simulation form.
#pragma once

#include "base/check.h"
#include "base/mesh.h"
#include "worker/workers.h"

namespace leeway::sim {

// They must be complete and in order; anything else is our bug.
inline Mesh mesh_of(const Workers& workers) {
  LEEWAY_CHECK(!workers.empty(), "a run has workers");
  const WorkerId last = workers.back()->id();
  const Mesh mesh{.stages = last.stage.value + 1, .replicas = last.replica.value + 1};
  LEEWAY_CHECK(mesh.count() == workers.size(), "the mesh is complete");
  for (size_t at = 0; at < workers.size(); ++at) {
    LEEWAY_CHECK(workers[at]->id() == mesh.id(at), "replica after replica, stage after stage");
  }
  return mesh;
}

}  // namespace leeway::sim
