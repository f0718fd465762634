// Which device each worker of a process computes on.
#pragma once

#include <string>

#include "base/ids.h"
#include "config/recipe.h"

namespace leeway {

// `gpus`: how many this process sees. With run.device = "cuda" and without mesh.devices, all of
// them are used: stages go over the GPUs in order, replicas after that; if there are fewer GPUs
// than stages, neighbouring stages share one.
std::string worker_device(const Recipe& recipe, WorkerId worker, int gpus);

}  // namespace leeway
