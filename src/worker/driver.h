// A driver moves messages and decides when a worker gets its turn: with threads, or in virtual
// time.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/outbox.h"
#include "worker/shard_store.h"
#include "worker/workers.h"

namespace leeway {

class Driver {
 public:
  virtual ~Driver() = default;

  // Runs these workers, and a coordinator with this recorder, until the session is over. Rethrows
  // exceptions from a worker's compute; a returned error is the driver's own. `shards` null: what
  // workers save is not kept.
  virtual Status run(const Workers& workers, Recorder& recorder, ShardStore* shards) = 0;
  Status run(const Workers& workers, Recorder& recorder) { return run(workers, recorder, nullptr); }
  virtual const Clock& clock() const = 0;
};

}  // namespace leeway
