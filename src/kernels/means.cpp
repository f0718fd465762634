#include "kernels/means.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/cuda_glue.h"
#include "kernels/update_loops.h"
#if LEEWAY_CUDA
#include "kernels/means_cuda.h"
#endif

namespace leeway {
namespace {

// Calls body(block, first element, count) for each block of a tensor, on several threads.
template <class Body>
void for_stretches(int64_t count, const Body& body) {
  const int64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  at::parallel_for(0, blocks, kBlocksPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlockElements;
      body(block, first, std::min(kBlockElements, count - first));
    }
  });
}

// Adds up block_sum(first element, count) of all blocks, in their order.
template <class BlockSum>
double sum_of_blocks(int64_t count, const BlockSum& block_sum) {
  std::vector<double> sums(static_cast<size_t>((count + kBlockElements - 1) / kBlockElements));
  for_stretches(count, [&](int64_t block, int64_t first, int64_t length) {
    sums[static_cast<size_t>(block)] = block_sum(first, length);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class Scalar>
void mean_cpu(const std::vector<at::Tensor>& values, const at::Tensor& mean) {
  auto* const target = mean.mutable_data_ptr<Scalar>();
  for_stretches(mean.numel(), [&](int64_t, int64_t first, int64_t count) {
    std::vector<const Scalar*> starts;
    starts.reserve(values.size());
    for (const at::Tensor& own : values) starts.push_back(own.const_data_ptr<Scalar>() + first);
    mean_block(starts.data(), static_cast<int64_t>(starts.size()), count, target + first);
  });
}

template <class Scalar>
double squared_norm(const at::Tensor& values) {
  const auto* const start = values.const_data_ptr<Scalar>();
  return sum_of_blocks(values.numel(), [&](int64_t first, int64_t count) {
    return sum_of_squares(start + first, count);
  });
}

template <class Scalar>
double squared_distance_of(const at::Tensor& left, const at::Tensor& right) {
  const auto* const left_start = left.const_data_ptr<Scalar>();
  const auto* const right_start = right.const_data_ptr<Scalar>();
  return sum_of_blocks(left.numel(), [&](int64_t first, int64_t count) {
    return squared_distance(left_start + first, right_start + first, count);
  });
}

// Looks at single values only if their mean is not finite: it is, if all of them are.
template <class Scalar>
FiniteMean mean_of_finite_cpu(const std::vector<at::Tensor>& values, double if_none) {
  at::Tensor mean = mean_of(values);
  double scale = squared_norm<Scalar>(mean);
  std::vector<double> sums(FiniteMean::kFirstValue + values.size(), 1.0);
  std::vector<at::Tensor> finite = values;
  if (!std::isfinite(scale)) {
    finite.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const bool all = at::isfinite(values[i]).all().item<bool>();
      sums[FiniteMean::kFirstValue + i] = all ? 1 : 0;
      if (all) finite.push_back(values[i]);
    }
    mean = finite.empty() ? at::full_like(mean, if_none) : mean_of(finite);
    scale = squared_norm<Scalar>(mean);
  }
  double spread = 0;
  for (const at::Tensor& own : finite) spread += squared_distance_of<Scalar>(own, mean);
  sums[FiniteMean::kScale] = scale;
  sums[FiniteMean::kSpread] = finite.empty() ? 0 : spread / static_cast<double>(finite.size());
  return {.mean = mean, .sums = at::tensor(sums, at::kDouble)};
}

void check_alike(const std::vector<at::Tensor>& values) {
  LEEWAY_CHECK(!values.empty(), "an average needs a contributor");
  const at::Tensor& first = values.front();
  for (const at::Tensor& own : values) {
    LEEWAY_CHECK(own.numel() == first.numel(), "replicas send equally many values");
    LEEWAY_CHECK(own.scalar_type() == first.scalar_type(), "replicas send the same type");
    LEEWAY_CHECK(own.is_contiguous(), "contributions are flat");
  }
}

#if LEEWAY_CUDA
// `stacked` keeps the memory of a long list.
MeanParts parts_of(const CudaScope& scope, const std::vector<at::Tensor>& values,
                   at::Tensor& stacked) {
  LEEWAY_CHECK(values.front().scalar_type() == at::kFloat, "values on a GPU are fp32");
  MeanParts parts = {.parts = std::ssize(values), .count = values.front().numel()};
  if (!parts.are_listed()) {
    stacked = at::stack(values);
    parts.stacked = scope.data<float>(stacked);
    return parts;
  }
  for (size_t i = 0; i < values.size(); ++i) parts.listed[i] = scope.data<float>(values[i]);
  return parts;
}

at::Tensor mean_on_device(const std::vector<at::Tensor>& values) {
  const CudaScope scope(values.front());
  at::Tensor stacked;
  const at::Tensor mean = at::empty_like(values.front());
  mean_cuda(parts_of(scope, values, stacked), scope.data<float>(mean), scope.stream());
  return mean;
}

FiniteMean mean_of_finite_on_device(const std::vector<at::Tensor>& values, double if_none) {
  const CudaScope scope(values.front());
  at::Tensor stacked;
  const MeanParts parts = parts_of(scope, values, stacked);
  const auto sums_options = values.front().options().dtype(at::kDouble);
  const FiniteMean result = {
      .mean = at::empty_like(values.front()),
      .sums = at::empty({FiniteMean::kFirstValue + parts.parts}, sums_options)};
  const at::Tensor scratch = at::empty({finite_mean_scratch(parts.count)}, sums_options);
  mean_of_finite_cuda(parts, {.mean = scope.data<float>(result.mean),
                              .if_none = static_cast<float>(if_none),
                              .scratch = scope.data<double>(scratch),
                              .sums = scope.data<double>(result.sums),
                              .stream = scope.stream()});
  return result;
}
#else
at::Tensor mean_on_device(const std::vector<at::Tensor>&) { LEEWAY_UNREACHABLE(kNoCuda); }
FiniteMean mean_of_finite_on_device(const std::vector<at::Tensor>&, double) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
#endif

}  // namespace

at::Tensor mean_of(const std::vector<at::Tensor>& values) {
  check_alike(values);
  const at::Tensor& first = values.front();
  if (is_on_gpu(first)) return mean_on_device(values);
  // In fp64: the sum of equal fp32 values is then exact, and so is their mean.
  at::Tensor mean = at::empty_like(first);
  if (first.scalar_type() == at::kDouble) {
    mean_cpu<double>(values, mean);
  } else {
    mean_cpu<float>(values, mean);
  }
  return mean;
}

FiniteMean mean_of_finite(const std::vector<at::Tensor>& values, double if_none) {
  check_alike(values);
  const at::Tensor& first = values.front();
  if (is_on_gpu(first)) return mean_of_finite_on_device(values, if_none);
  return first.scalar_type() == at::kDouble ? mean_of_finite_cpu<double>(values, if_none)
                                            : mean_of_finite_cpu<float>(values, if_none);
}

}  // namespace leeway
