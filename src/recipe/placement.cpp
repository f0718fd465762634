#include "recipe/placement.h"

#include <fmt/format.h>

#include <cstdint>

namespace leeway {
namespace {

int64_t place(const MeshOptions& mesh, WorkerId worker, int64_t devices) {
  const int64_t stage = worker.stage.value;
  if (devices < mesh.stages) return stage * devices / mesh.stages;
  return (worker.replica.value * mesh.stages + stage) % devices;
}

}  // namespace

std::string worker_device(const Recipe& recipe, WorkerId worker, int gpus) {
  const MeshOptions& mesh = recipe.mesh;
  if (!mesh.devices.empty()) {
    return mesh.devices[static_cast<size_t>(
        place(mesh, worker, static_cast<int64_t>(mesh.devices.size())))];
  }
  if (recipe.run.device != "cuda" || gpus < 2) return recipe.run.device;
  return fmt::format("cuda:{}", place(mesh, worker, gpus));
}

}  // namespace leeway
