// Measuring tools for the benchmarks.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/process.h"

namespace leeway {

template <class Function>
double seconds_of(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Copies the first `bytes` of a tensor, with all threads.
inline void plain_copy(const at::Tensor& from, const at::Tensor& to, int64_t bytes) {
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  at::parallel_for(0, bytes, 1 << 16, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

inline int64_t peak_megabytes() { return peak_rss_bytes() / (1024 * 1024); }

}  // namespace leeway
