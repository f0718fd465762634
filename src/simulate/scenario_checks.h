// Checks that the parts of a scenario fit together, and reads its recorded links.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "simulate/scenario.h"

namespace leeway {

// Fills in the points of every link with a trace: lines of seconds,megabits[,milliseconds].
Status read_traces(const Path& folder, Scenario& scenario);

// Checks that names exist and are unique, times are possible, and every machine can reach every
// other. Errors name file and line.
Status check_scenario(const Scenario& scenario);

}  // namespace leeway
