// What the workers have said about themselves when they ended, summed up for the summary.
#pragma once

#include <cstdint>
#include <vector>

#include "config/recipe.h"
#include "run/recorder.h"
#include "run/summary.h"

namespace leeway {

std::vector<StageSummary> stage_summaries(const RunRecorder& recorder);
RoundCounts round_counts(const RunRecorder& recorder);
// What an all-reduce of fp32 gradients would have sent for the updates that were made.
double usual_bytes(const Recipe& recipe, int64_t parameters, const RunRecorder& recorder);

}  // namespace leeway
