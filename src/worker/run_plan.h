// What all workers of a sitting agree on before it begins. Pure data: every worker computes the
// same answers from it, and nothing of it travels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"

namespace leeway {

struct RunPlan {
  PipelineShape shape;
  int64_t first_update = 0;        // updates that are done when the sitting begins
  int64_t last_update = 0;         // and when it ends
  int64_t run_updates = 0;         // of the whole run
  int64_t evaluate_every = 0;      // updates; 0: only after the last of the run
  int64_t evaluation_batches = 0;  // validation forwards of one evaluation; 0: no validation data
  int64_t checkpoint_every = 0;    // updates; 0: only at the end of the sitting
  bool saves = true;
  std::vector<int64_t> flushes = {};  // more flush points, ascending: those of a recorded run
  int64_t activation_bytes = 0;       // of one microbatch between two stages

  bool evaluates(int64_t update) const {
    if (evaluation_batches == 0) return false;
    return update == run_updates || (evaluate_every > 0 && update % evaluate_every == 0);
  }
  bool checkpoints(int64_t update) const {
    return checkpoint_every > 0 && update % checkpoint_every == 0;
  }
  // The next flush point of a stage that has done `updates`, in a sitting that ends at `last`.
  UpdateId next_flush(int64_t updates, int64_t last) const {
    if (shape.synchronous()) return {std::min(updates + 1, last)};
    int64_t next = last;
    if (checkpoint_every > 0) {
      next = std::min(next, (updates / checkpoint_every + 1) * checkpoint_every);
    }
    const auto recorded = std::upper_bound(flushes.begin(), flushes.end(), updates);
    return {recorded == flushes.end() ? next : std::min(next, *recorded)};
  }
};

}  // namespace leeway
