// The driver that a recipe asks for.
#pragma once

#include <memory>

#include "config/recipe.h"
#include "worker/driver.h"

namespace leeway {

// Of one worker's numeric kernels: where there are several workers, each core has its own to do.
int threads_per_worker(const Recipe& recipe);

std::unique_ptr<Driver> make_driver(const Recipe& recipe, int64_t vocabulary);

}  // namespace leeway
