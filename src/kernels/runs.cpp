#include "kernels/runs.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/cuda_glue.h"
#if LEEWAY_CUDA
#include "kernels/runs_cuda.h"
#endif

namespace leeway {
namespace {

enum class Move { kGather, kScatter };

template <class Element>
void move_cpu(Move move, const Subset& subset, const at::Tensor& flat, const at::Tensor& values) {
  auto* const all = static_cast<Element*>(flat.mutable_data_ptr());
  auto* const compact = static_cast<Element*>(values.mutable_data_ptr());
  for_blocks(subset, [&](const RunRange& range) {
    Element* const block = compact + range.first;
    if (move == Move::kGather) {
      gather_runs(range, static_cast<const Element*>(all), block);
    } else {
      scatter_runs(range, static_cast<const Element*>(block), all);
    }
  });
}

// Only the width matters: nothing is computed.
void move_runs(Move move, const Subset& subset, const at::Tensor& flat, const at::Tensor& values) {
  if (is_on_gpu(flat)) {
#if LEEWAY_CUDA
    const CudaScope scope(flat);
    const auto kernel = move == Move::kGather ? gather_cuda : scatter_cuda;
    return kernel(subset, {.flat = scope.data<void>(flat),
                           .compact = scope.data<void>(values),
                           .element_bytes = flat.element_size(),
                           .stream = scope.stream()});
#else
    LEEWAY_UNREACHABLE(kNoCuda);
#endif
  }
  switch (flat.scalar_type()) {
    case at::kFloat:
      return move_cpu<float>(move, subset, flat, values);
    case at::kDouble:
      return move_cpu<double>(move, subset, flat, values);
    case at::kBFloat16:
      return move_cpu<uint16_t>(move, subset, flat, values);
    default:
      LEEWAY_UNREACHABLE("a flat buffer is fp32, fp64 or bf16");
  }
}

void check_flat(const Subset& subset, const at::Tensor& flat) {
  LEEWAY_CHECK(flat.is_contiguous(), "the buffer is contiguous");
  LEEWAY_CHECK(flat.numel() == subset.parameters, "the buffer is as long as the stage");
}

}  // namespace

Subset Subset::chunk(int64_t chunk, int64_t chunks) const {
  LEEWAY_CHECK(chunk >= 0 && chunk < chunks, "the chunk is one of the subset's chunks");
  Subset part = *this;
  const int64_t first = runs * chunk / chunks;
  part.first_group = first_group + first;
  part.runs = runs * (chunk + 1) / chunks - first;
  return part;
}

at::Tensor gather(const Subset& subset, const at::Tensor& flat) {
  check_flat(subset, flat);
  const int64_t count = subset.count();
  if (count > 0 && subset.is_stretch()) return flat.narrow(0, subset.begin(0), count).clone();
  at::Tensor values = at::empty({count}, flat.options());
  move_runs(Move::kGather, subset, flat, values);
  return values;
}

void scatter(const Subset& subset, const at::Tensor& values, const at::Tensor& flat) {
  check_flat(subset, flat);
  const int64_t count = subset.count();
  LEEWAY_CHECK(values.numel() == count, "one value for each coordinate");
  if (count > 0 && subset.is_stretch()) {
    flat.narrow(0, subset.begin(0), count).copy_(values);
    return;
  }
  move_runs(Move::kScatter, subset, flat, values.to(flat.options()).contiguous());
}

void clear(const Subset& subset, const at::Tensor& flat) {
  check_flat(subset, flat);
  const int64_t count = subset.count();
  if (count > 0 && subset.is_stretch()) {
    flat.narrow(0, subset.begin(0), count).zero_();
    return;
  }
  scatter(subset, at::zeros({count}, flat.options()), flat);
}

}  // namespace leeway
