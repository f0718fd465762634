// Means and spreads over replicas: what an owner does with the contributions of a round.
#include <ATen/Parallel.h>

#include <algorithm>

#include "averaging/blocks.h"
#include "averaging/merge.h"
#include "base/check.h"

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
double squared_distance_cpu(const at::Tensor& left, const at::Tensor& right) {
  const int64_t blocks = (left.numel() + kBlockElements - 1) / kBlockElements;
  std::vector<double> sums(static_cast<size_t>(blocks));
  for_stretches(left.numel(), [&](int64_t block, int64_t first, int64_t count) {
    sums[static_cast<size_t>(block)] = squared_distance(
        left.const_data_ptr<Scalar>() + first, right.const_data_ptr<Scalar>() + first, count);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double squared_distance_of(const at::Tensor& left, const at::Tensor& right) {
  if (!left.device().is_cpu()) {
    return (left.to(at::kDouble) - right.to(at::kDouble)).square().sum().item<double>();
  }
  return left.scalar_type() == at::kDouble ? squared_distance_cpu<double>(left, right)
                                           : squared_distance_cpu<float>(left, right);
}

void check_alike(const std::vector<at::Tensor>& values, const at::Tensor& one) {
  for (const at::Tensor& own : values) {
    LEEWAY_CHECK(own.numel() == one.numel(), "replicas send equally many values");
    LEEWAY_CHECK(own.scalar_type() == one.scalar_type(), "replicas send the same type");
    LEEWAY_CHECK(own.is_contiguous(), "contributions are flat");
  }
}

}  // namespace

at::Tensor mean_of(const std::vector<at::Tensor>& values) {
  LEEWAY_CHECK(!values.empty(), "an average needs a contributor");
  const at::Tensor& first = values.front();
  check_alike(values, first);
  // In fp64: the sum of equal fp32 values is then exact, and so is their mean.
  if (!first.device().is_cpu()) {
    at::Tensor sum = first.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    for (size_t i = 1; i < values.size(); ++i) sum.add_(values[i]);
    return sum.div_(static_cast<double>(values.size())).to(first.scalar_type());
  }
  const at::Tensor mean = at::empty_like(first);
  if (first.scalar_type() == at::kDouble) {
    mean_cpu<double>(values, mean);
  } else {
    mean_cpu<float>(values, mean);
  }
  return mean;
}

double spread_of(const std::vector<at::Tensor>& values, const at::Tensor& mean) {
  LEEWAY_CHECK(!values.empty(), "a spread needs a contributor");
  check_alike(values, mean);
  double sum = 0;
  for (const at::Tensor& own : values) sum += squared_distance_of(own, mean);
  return sum / static_cast<double>(values.size());
}

}  // namespace leeway
