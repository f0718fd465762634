// Walks a subset in blocks that fit the cache, for passes that change several flat buffers at once.
// The blocks depend only on the subset, not on the number of threads.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "averaging/merge.h"
#include "averaging/subset.h"
#include "base/check.h"
#include "kernels/round_loops.h"

namespace leeway {

inline constexpr int64_t kBlocksPerThread = 32;  // minimum: with fewer, a thread does not pay off

inline RunRange whole_range(const Subset& subset) {
  return {.begins = subset.begins.data(),
          .runs = static_cast<int64_t>(subset.begins.size()),
          .granularity = subset.granularity,
          .first = 0,
          .last = subset.count()};
}

// Calls body(range of positions) for every block, on several threads.
template <class Body>
void for_blocks(const Subset& subset, const Body& body) {
  const RunRange whole = whole_range(subset);
  const int64_t blocks = (whole.last + kBlockElements - 1) / kBlockElements;
  at::parallel_for(0, blocks, kBlocksPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      RunRange range = whole;
      range.first = block * kBlockElements;
      range.last = std::min(range.first + kBlockElements, whole.last);
      body(range);
    }
  });
}

// One block of one flat buffer: the buffer itself if the block is contiguous in it, else a copy
// that store() writes back. An undefined buffer has no data.
template <class Scalar>
class BufferBlock {
 public:
  BufferBlock(const RunRange& range, const at::Tensor& flat) : range_(range) {
    if (!flat.defined()) return;
    flat_ = flat.mutable_data_ptr<Scalar>();
    if (range.is_stretch()) {
      data_ = flat_ + range.offset();
    } else {
      gather_runs(range, static_cast<const Scalar*>(flat_), copy_.data());
      data_ = copy_.data();
    }
  }
  BufferBlock(const BufferBlock&) = delete;
  BufferBlock& operator=(const BufferBlock&) = delete;

  Scalar* data() const { return data_; }
  void store() const {
    if (data_ == copy_.data()) scatter_runs(range_, static_cast<const Scalar*>(data_), flat_);
  }

 private:
  RunRange range_;
  Scalar* flat_ = nullptr;
  Scalar* data_ = nullptr;
  std::array<Scalar, kBlockElements> copy_;  // uninitialized unless needed
};

// Writes a block's new weights to the copy that forwards use, if there is one.
template <class Scalar>
void write_compute(const RunRange& range, const at::Tensor& weights, const at::Tensor& compute) {
  if (!compute.defined()) return;
  const auto* const from = weights.const_data_ptr<Scalar>();
  switch (compute.scalar_type()) {
    case at::kFloat:
      return convert_runs(range, from, compute.mutable_data_ptr<float>());
    case at::kDouble:
      return convert_runs(range, from, compute.mutable_data_ptr<double>());
    case at::kBFloat16:
      return convert_runs(range, from, static_cast<uint16_t*>(compute.mutable_data_ptr()));
    default:
      LEEWAY_UNREACHABLE("a compute copy is fp32, fp64 or bf16");
  }
}

// One sum per block until all are there; then they are added in block order.
class SizeSums {
 public:
  explicit SizeSums(int64_t count)
      : count_(count), sums_(static_cast<size_t>((count + kBlockElements - 1) / kBlockElements)) {}

  BlockSums& of(const RunRange& range) {
    return sums_[static_cast<size_t>(range.first / kBlockElements)];
  }
  MergeNorms norms() const {
    MergeNorms norms = {.count = count_};
    for (const BlockSums& sums : sums_) {
      norms.drift += sums.drift;
      norms.correction += sums.correction;
    }
    return norms;
  }

 private:
  int64_t count_ = 0;
  std::vector<BlockSums> sums_;
};

}  // namespace leeway
