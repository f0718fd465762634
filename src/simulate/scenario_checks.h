// Whether the parts of a scenario fit each other, and the recorded links that it names.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "simulate/scenario.h"

namespace leeway {

// Fills in the points of every link with a trace: lines of seconds,megabits[,milliseconds].
Status read_traces(const Path& folder, Scenario& scenario);

// Names that exist and are no others', times that are possible, and a way from every machine to
// every other. The sentence names file and line.
Status check_scenario(const Scenario& scenario);

}  // namespace leeway
