// Measures the speed of one worker on this machine.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"
#include "simulate/scenario.h"

namespace leeway {

// Opens the data that a recipe names; prepared text is cached beside the run folder.
using OpenData = std::function<Result<Dataset>(const Recipe& recipe, const Path& run_folder)>;

// Gives all machines of the scenario the cores of this one, and the tflops and update_tflops of one
// thread on the recipe's model and microbatches while the other cores do the same. Measured in a
// run of a few updates, which leaves nothing behind, with the simulator's own cost model.
Status calibrate(const Clock& clock, const OpenData& open_data, Scenario& scenario);

}  // namespace leeway
