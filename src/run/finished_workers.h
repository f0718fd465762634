// What the workers have said about themselves when they ended, summed up for the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "run/recorder.h"
#include "run/summary.h"

namespace leeway {

std::vector<StageSummary> stage_summaries(const RunRecorder& recorder);
RoundCounts round_counts(const RunRecorder& recorder);
// Whether the replicas that are left have the same model: "identical"; "restored", if one of them
// had another and has taken it anew; "different"; "unknown", if they ended at different answers.
// None: they share no model.
std::optional<std::string> agreement(const RunRecorder& recorder);
// What an all-reduce of fp32 gradients would have sent for the updates that were made.
double usual_bytes(const Recipe& recipe, int64_t parameters, const RunRecorder& recorder);

}  // namespace leeway
