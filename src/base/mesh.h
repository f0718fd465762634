// Numbers the workers replica after replica, stage after stage, so that a vector can be indexed by
// worker.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace leeway {

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

}  // namespace leeway
