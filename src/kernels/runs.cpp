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

template <class Element>
void gather_cpu(const Subset& subset, const at::Tensor& flat, const at::Tensor& values) {
  const auto* const from = static_cast<const Element*>(flat.const_data_ptr());
  auto* const to = static_cast<Element*>(values.mutable_data_ptr());
  for_blocks(subset, [&](const RunRange& range) { gather_runs(range, from, to + range.first); });
}

template <class Element>
void scatter_cpu(const Subset& subset, const at::Tensor& values, const at::Tensor& flat) {
  const auto* const from = static_cast<const Element*>(values.const_data_ptr());
  auto* const to = static_cast<Element*>(flat.mutable_data_ptr());
  for_blocks(subset, [&](const RunRange& range) { scatter_runs(range, from + range.first, to); });
}

// Only the width matters: nothing is computed.
void gather_to(const Subset& subset, const at::Tensor& flat, const at::Tensor& values) {
  if (!flat.device().is_cpu()) {
#if LEEWAY_CUDA
    const CudaScope scope(flat);
    return gather_cuda(subset, {.flat = scope.data<void>(flat),
                                .compact = scope.data<void>(values),
                                .element_bytes = flat.element_size(),
                                .stream = scope.stream()});
#else
    LEEWAY_UNREACHABLE(kNoCuda);
#endif
  }
  switch (flat.scalar_type()) {
    case at::kFloat:
      return gather_cpu<float>(subset, flat, values);
    case at::kDouble:
      return gather_cpu<double>(subset, flat, values);
    case at::kBFloat16:
      return gather_cpu<uint16_t>(subset, flat, values);
    default:
      LEEWAY_UNREACHABLE("a flat buffer is fp32, fp64 or bf16");
  }
}

void scatter_from(const Subset& subset, const at::Tensor& values, const at::Tensor& flat) {
  if (!flat.device().is_cpu()) {
#if LEEWAY_CUDA
    const CudaScope scope(flat);
    return scatter_cuda(subset, {.flat = scope.data<void>(flat),
                                 .compact = scope.data<void>(values),
                                 .element_bytes = flat.element_size(),
                                 .stream = scope.stream()});
#else
    LEEWAY_UNREACHABLE(kNoCuda);
#endif
  }
  switch (flat.scalar_type()) {
    case at::kFloat:
      return scatter_cpu<float>(subset, values, flat);
    case at::kDouble:
      return scatter_cpu<double>(subset, values, flat);
    case at::kBFloat16:
      return scatter_cpu<uint16_t>(subset, values, flat);
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
  const at::Tensor values = at::empty({count}, flat.options());
  gather_to(subset, flat, values);
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
  scatter_from(subset, values.to(flat.options()).contiguous(), flat);
}

}  // namespace leeway
