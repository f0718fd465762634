// The driver for a run on one machine: all of it in one process. Threads sleep while they have
// nothing to do; messages cross threads, state does not.
#pragma once

#include <utility>
#include <vector>

#include "drivers/loop/planned_faults.h"
#include "drivers/threads/wall_clock.h"
#include "worker/driver.h"

namespace leeway::threads {

class Threads final : public Driver {
 public:
  // `threads_per_worker`: for the numeric kernels of one worker.
  explicit Threads(int threads_per_worker, std::vector<PlannedFault> planned = {})
      : threads_per_worker_(threads_per_worker), planned_(std::move(planned)) {}

  // Rethrows an exception from a worker's compute after all threads have ended.
  using Driver::run;
  Status run(const Workers& workers, Recorder& recorder, ShardStore* shards) override;
  const Clock& clock() const override { return clock_; }

 private:
  int threads_per_worker_;
  std::vector<PlannedFault> planned_;
  WallClock clock_;
};

}  // namespace leeway::threads
