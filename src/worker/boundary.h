// The boundaries between pieces of training where rounds take place, and whose turn it is there.
#pragma once

#include <cstdint>
#include <optional>

#include "events/work.h"

namespace leeway {

// `due` without `work`: it waits for a message, and nothing else may come before it.
struct Turn {
  bool due = false;
  std::optional<Work> work = {};
};

struct Boundary {
  // Rounds come before an update (they average its gradients) or after it (weights, steps). Between
  // the backwards of an update nothing begins, but what is due is merged.
  enum class When { kBeforeUpdate, kAfterUpdate, kInsideUpdate };
  When when = When::kAfterUpdate;
  int64_t update = 0;     // the one it belongs to
  int64_t updates = 0;    // how many this worker has done,
  int64_t backwards = 0;  // and how many backwards
  bool flushes = false;   // no round may stay in flight
  bool ends = false;      // the session ends here
  bool stops = false;     // and early: some replicas may not come as far as the run does
  bool saved = false;     // the state is saved already, so no weight may change any more
};

// Backwards of an update by then; 0: it is not inside one.
inline int64_t position_of(const Boundary& boundary, int64_t update_every) {
  if (boundary.when != Boundary::When::kInsideUpdate) return 0;
  return boundary.backwards - boundary.updates * update_every;
}

// Where a merge is, and how late its answer.
inline void place_merge(const Boundary& boundary, int64_t update_every, int64_t lag_backwards,
                        Work& merge) {
  merge.delay = lag_backwards / update_every;
  merge.position = position_of(boundary, update_every);
  if (merge.position > 0) merge.positions = update_every;
}

}  // namespace leeway
