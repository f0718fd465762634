// Who moves messages and decides when a worker gets its turn: threads, or virtual time.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/outbox.h"
#include "worker/workers.h"

namespace leeway {

class Driver {
 public:
  virtual ~Driver() = default;

  // Until all workers are done or the recorder are abandoned. What a worker's numbers throw is
  // thrown on from here; an error is one of the driver's own.
  virtual Status run(const Workers& workers, Recorder& recorder) = 0;
  virtual const Clock& clock() const = 0;
};

// Whether a driver asks for a wish to stop before it finishes this: at what a replica does next to
// a flush point, on its first stage, which names it.
inline bool may_stop_at(const Worker& worker, const Work& work) {
  const bool boundary = work.kind == WorkKind::kUpdate || work.kind == WorkKind::kEvaluate;
  return boundary && worker.id().stage.value == 0;
}

}  // namespace leeway
