// The boundary of an update, where rounds take place, and whose turn it is there.
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
  // Rounds come before an update (they average its gradients) or after it (weights, steps).
  enum class When { kBeforeUpdate, kAfterUpdate };
  When when = When::kAfterUpdate;
  int64_t update = 0;    // the one it belongs to
  int64_t updates = 0;   // how many this worker has done
  bool flushes = false;  // no round may stay in flight
  bool ends = false;     // the session ends here
  bool stops = false;    // and early: some replicas may not come as far as the run does
  bool saved = false;    // the state is saved already, so no weight may change any more
};

}  // namespace leeway
