// What one worker of this machine achieves, measured.
#pragma once

#include "base/result.h"
#include "config/scenario.h"
#include "worker/clock.h"

namespace leeway::cli {

// Takes all machines of the scenario for this one: as many cores, and the tflops and update_tflops
// of one thread with the recipe's own model and microbatches while the other cores do the same. By
// a run of a few updates, which leaves nothing behind, and the simulator's own arithmetic.
Status calibrate(const Clock& clock, Scenario& scenario);

}  // namespace leeway::cli
