// The plan of a run, as its recipe and its data ask for it.
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
};

// The whole run in one session; who wants less moves first_update and last_update.
RunPlan make_plan(const Recipe& recipe, const MeshData& data);
// The same where there is no data: `evaluation_batches` of one evaluation, 0 for none at all.
RunPlan make_plan(const Recipe& recipe, int64_t vocabulary, int64_t evaluation_batches);

}  // namespace leeway
