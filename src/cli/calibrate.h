// What one worker of this machine achieves, measured.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "config/scenario.h"
#include "worker/clock.h"

namespace leeway::cli {

// TFLOP/s of one thread with the recipe's own model and microbatches while the other cores do the
// same, by a run of a few updates in `folder`, by the same arithmetic that the simulator goes by.
Result<double> measure_tflops(const Scenario& scenario, const Path& folder, const Clock& clock);

}  // namespace leeway::cli
