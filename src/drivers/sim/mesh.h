// Numbers the workers replica after replica, stage after stage, so that a vector can be indexed by
// worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "worker/workers.h"

namespace leeway::sim {

struct Mesh {
  int64_t stages = 1;
  int64_t replicas = 1;

  size_t count() const { return static_cast<size_t>(stages * replicas); }
  bool contains(WorkerId id) const {
    return id.stage.value >= 0 && id.stage.value < stages && id.replica.value >= 0 &&
           id.replica.value < replicas;
  }
  size_t index(WorkerId id) const {
    return static_cast<size_t>(id.replica.value * stages + id.stage.value);
  }
  WorkerId id(size_t index) const {
    const auto at = static_cast<int64_t>(index);
    return {.replica = {at / stages}, .stage = {at % stages}};
  }
};

// The mesh these workers form. They must be complete and in order; anything else is our bug.
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
