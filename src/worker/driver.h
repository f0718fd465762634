// A driver moves messages and decides when a worker gets its turn: with threads, or in virtual
// time.
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

  // Runs until all workers are done or the recorder has abandoned the run. Rethrows exceptions from
  // a worker's compute; a returned error is the driver's own.
  virtual Status run(const Workers& workers, Recorder& recorder) = 0;
  virtual const Clock& clock() const = 0;
};

// Whether a driver passes on the user's requests between this work's run() and finish(): at updates
// and evaluations of the first stage, which names the flush point where its replica ends or saves.
inline bool hears_requests(const Worker& worker, const Work& work) {
  const bool boundary = work.kind == WorkKind::kUpdate || work.kind == WorkKind::kEvaluate;
  return boundary && worker.id().stage.value == 0;
}

}  // namespace leeway
