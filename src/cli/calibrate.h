// What one worker of this machine achieves, measured.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "config/scenario.h"
#include "worker/clock.h"

namespace leeway::cli {

// Takes all machines of the scenario for this one: as many cores, and the tflops and update_tflops
// of one thread with the recipe's own model and microbatches while the other cores do the same. By
// a run of a few updates in `folder`, which is removed afterwards, and the simulator's arithmetic.
Status calibrate(const Path& folder, const Clock& clock, Scenario& scenario);

}  // namespace leeway::cli
