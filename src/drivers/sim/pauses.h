// Times when a worker stands still: another tenant uses its machine, or someone suspended it.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "drivers/sim/busy_intervals.h"
#include "drivers/sim/mesh.h"

namespace leeway::sim {

struct Pause {
  WorkerId worker;
  Nanos begin;
  Nanos length;
};

// A paused worker starts nothing, and work it has begun ends later by the length of the pause.
// Messages to it still arrive, and those it has already sent travel on.
class Pauses {
 public:
  // In any order; pauses that touch or overlap become one.
  Pauses(const Mesh& mesh, const std::vector<Pause>& pauses);

  // When the worker's current pause ends; nullopt: it is not paused.
  std::optional<Nanos> awake_at(size_t worker, Nanos now) const;

  // When a piece of work ends that begins at `begin`, outside a pause. Adds its time, without the
  // pauses, to `busy`.
  Nanos work(size_t worker, Nanos begin, Nanos duration, BusyIntervals& busy) const;

 private:
  // The first pause that ends after `now`.
  std::vector<Window>::const_iterator first_after(size_t worker, Nanos now) const;

  std::vector<std::vector<Window>> by_worker_;  // each ascending, with a gap between any two
};

}  // namespace leeway::sim
