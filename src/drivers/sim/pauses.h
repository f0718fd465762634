// Times at which a worker stands still: another tenant has its machine, or somebody stopped it.
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

// A paused worker starts nothing, and what it had begun ends later by the pause. What others send
// it still arrives; what it sent before is on its way.
class Pauses {
 public:
  // In any order; those that touch or overlap become one.
  Pauses(const Mesh& mesh, const std::vector<Pause>& pauses);

  // The end of the pause that the worker is in; none: it is in none.
  std::optional<Nanos> awake_at(size_t worker, Nanos now) const;

  // When a piece of work ends that begins now, outside of a pause. The time without the pauses goes
  // to `busy`.
  Nanos work(size_t worker, Nanos begin, Nanos duration, BusyIntervals& busy) const;

 private:
  // The first pause that ends later.
  std::vector<Window>::const_iterator first_after(size_t worker, Nanos now) const;

  std::vector<std::vector<Window>> by_worker_;  // each ascending, with a gap between any two
};

}  // namespace leeway::sim
