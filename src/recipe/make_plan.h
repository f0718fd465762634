// Makes the plan of a run from its recipe and data.
#pragma once

#include <cstdint>

#include "config/recipe.h"
#include "data/token_file.h"
#include "worker/run_plan.h"

namespace leeway {

struct MeshData {
  const TokenFile& train;
  const TokenFile* valid = nullptr;  // null: no validation
  int64_t vocabulary = 0;
  int64_t shift = 0;  // SamplerOptions::shift
};

// The whole run in one session. Narrow first_update/last_update to run part of a recipe.
RunPlan make_plan(const Recipe& recipe, const MeshData& data);
// The same without data; `evaluation_batches` per evaluation, 0: no evaluations.
RunPlan make_plan(const Recipe& recipe, int64_t vocabulary, int64_t evaluation_batches);

}  // namespace leeway
