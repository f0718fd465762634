// The driver for a run on one machine: one thread and one mailbox per worker. Threads sleep while
// they have nothing to do; messages cross threads, state does not.
#pragma once

#include "drivers/threads/wall_clock.h"
#include "worker/driver.h"

namespace leeway::threads {

class Threads final : public Driver {
 public:
  // kBytes: what crosses threads is what would cross a network, for tests.
  enum class Letters { kMessages, kBytes };
  // `threads_per_worker`: for the numeric kernels of one worker.
  explicit Threads(int threads_per_worker, Letters letters = Letters::kMessages)
      : threads_per_worker_(threads_per_worker), letters_(letters) {}

  // Rethrows an exception from a worker's compute after all threads have ended.
  Status run(const Workers& workers, Recorder& recorder) override;
  const Clock& clock() const override { return clock_; }

 private:
  int threads_per_worker_;
  Letters letters_;
  WallClock clock_;
};

}  // namespace leeway::threads
