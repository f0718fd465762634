// A driver moves messages and decides when a worker gets its turn: with threads, or in virtual
// time.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/outbox.h"
#include "worker/shard_store.h"
#include "worker/workers.h"

namespace leeway {

using WorkerMaker = std::function<std::unique_ptr<Worker>(WorkerId, const Entry&)>;

class Driver {
 public:
  virtual ~Driver() = default;

  // Runs these workers, and a coordinator with this recorder, until the session is over. Rethrows
  // exceptions from a worker's compute; a returned error is the driver's own. `shards` null: what
  // workers save is not kept.
  virtual Status run(const Workers& workers, Recorder& recorder, ShardStore* shards) = 0;
  Status run(const Workers& workers, Recorder& recorder) { return run(workers, recorder, nullptr); }
  virtual const Clock& clock() const = 0;

  // How a place that has become empty is filled; without it, places stay empty.
  void fill_places(WorkerMaker maker) { maker_ = std::move(maker); }

 protected:
  WorkerMaker maker_;
};

}  // namespace leeway
