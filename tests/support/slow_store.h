// A disk on which every state takes its time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "worker/shard_store.h"

namespace leeway {

class SlowStore final : public ShardStore {
 public:
  explicit SlowStore(Nanos time) : time_(time) {}
  Result<Stored> store(const StageState&) override {
    std::unique_lock lock(mutex_);
    never_.wait_for(lock, std::chrono::nanoseconds(time_.count), [] { return false; });
    return Stored{};
  }

 private:
  Nanos time_;
  std::mutex mutex_;
  std::condition_variable never_;
};

}  // namespace leeway
