// Counts the bytes of tensors that this thread allocates and frees on the CPU, by the hook that
// LibTorch has for its profiler.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace leeway {

class CountedMemory {
 public:
  CountedMemory()
      : counts_(std::make_shared<Counts>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counts_) {}

  double now() const { return static_cast<double>(counts_->now); }
  double peak() const { return static_cast<double>(counts_->peak); }

 private:
  struct Counts : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*place*/, int64_t bytes, size_t /*allocated*/,
                           size_t /*reserved*/, c10::Device /*device*/) override {
      now += bytes;
      peak = std::max(peak, now);
    }
    bool memoryProfilingEnabled() const override { return true; }

    int64_t now = 0;
    int64_t peak = 0;
  };

  std::shared_ptr<Counts> counts_;
  c10::DebugInfoGuard guard_;
};

}  // namespace leeway
