// All workers of a mesh in one process: replica after replica, stage after stage.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/worker.h"

namespace leeway {

using Workers = std::vector<std::unique_ptr<Worker>>;

// Workers that do everything but the arithmetic; the plan must outlive them.
Workers make_workers_without_compute(const RunPlan& plan);

std::vector<Worker*> pointers_to(const Workers& workers);

}  // namespace leeway
