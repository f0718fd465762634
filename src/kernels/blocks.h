// Walks a subset on the CPU, in blocks that fit the cache, for passes that change several flat
// buffers at once. The blocks depend only on the subset, not on the number of threads.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/round_loops.h"
#include "kernels/subset.h"

namespace leeway {

inline constexpr int64_t kBlocksPerThread = 32;  // minimum: with fewer, a thread does not pay off

// Where runs begin is listed for so many blocks at a time, so that the list stays in the cache.
inline constexpr int64_t kListedBlocks = 4;
inline constexpr int64_t kListedRuns = kListedBlocks * kBlockElements + kElementsAhead + 2;

// Calls body(range of positions) for every block, on several threads.
template <class Body>
void for_blocks(const Subset& subset, const Body& body) {
  const int64_t count = subset.count();
  const int64_t runs = subset.is_stretch() ? 1 : subset.runs;
  const int64_t granularity = subset.is_stretch() ? count : subset.granularity();
  const int64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  at::parallel_for(0, blocks, kBlocksPerThread, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kListedRuns> begins;  // uninitialized
    for (int64_t block = begin; block < end; block += kListedBlocks) {
      const int64_t first = block * kBlockElements;
      const int64_t last =
          std::min({(block + kListedBlocks) * kBlockElements, end * kBlockElements, count});
      RunRange range = {.begins = begins.data(),
                        .listed = first / granularity,
                        .runs = (last - 1) / granularity + 1,
                        .granularity = granularity};
      range.runs = std::min(runs, range.runs + std::max<int64_t>(1, kElementsAhead / granularity));
      deal_runs(subset.dealing, subset.first_group + range.listed, range.runs - range.listed,
                begins.data());
      for (range.first = first; range.first < last; range.first = range.last) {
        range.last = std::min(range.first + kBlockElements, last);
        body(std::as_const(range));
      }
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
      : sums_(static_cast<size_t>((count + kBlockElements - 1) / kBlockElements)) {}

  BlockSums& of(const RunRange& range) {
    return sums_[static_cast<size_t>(range.first / kBlockElements)];
  }
  // [drift, correction]
  at::Tensor totals() const {
    BlockSums totals;
    for (const BlockSums& sums : sums_) {
      totals.drift += sums.drift;
      totals.correction += sums.correction;
    }
    return at::tensor({totals.drift, totals.correction}, at::kDouble);
  }

 private:
  std::vector<BlockSums> sums_;
};

}  // namespace leeway
