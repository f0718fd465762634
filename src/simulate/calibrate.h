// What one worker of this machine achieves, measured.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"
#include "simulate/scenario.h"

namespace leeway {

// Opens the data that a recipe names; prepared text is kept beside the run's folder.
using OpenData = std::function<Result<Dataset>(const Recipe& recipe, const Path& run_folder)>;

// Takes all machines of the scenario for this one: as many cores, and the tflops and update_tflops
// of one thread with the recipe's own model and microbatches while the other cores do the same. By
// a run of a few updates, which leaves nothing behind, and the simulator's own arithmetic.
Status calibrate(const Clock& clock, const OpenData& open_data, Scenario& scenario);

}  // namespace leeway
