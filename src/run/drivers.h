// The driver that a recipe asks for.
#pragma once

#include <memory>

#include "config/recipe.h"
#include "worker/driver.h"

namespace leeway {

// Threads for one worker's numeric kernels: by default one if there are several workers, since each
// has a core to itself, otherwise all cores.
int threads_per_worker(const Recipe& recipe);

// Threads of all workers that compete for this machine's cores; 0: none do, because time is
// simulated or a GPU computes.
int64_t computing_threads(const Recipe& recipe);

std::unique_ptr<Driver> make_driver(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
