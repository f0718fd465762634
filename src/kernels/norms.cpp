#include "kernels/norms.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cuda_glue.h"
#include "kernels/update_loops.h"
#if LEEWAY_CUDA
#include "kernels/update_cuda.h"
#endif

namespace leeway {
namespace {

constexpr int64_t kParts = 1024;          // partial sums, on the stack
constexpr int64_t kPartElements = 16384;  // minimum: smaller parts are not worth a thread
constexpr int64_t kPartsPerThread = 8;    // minimum: with fewer, another thread does not pay off

template <class Scalar>
double sum_in_parts(const Scalar* values, int64_t count) {
  const int64_t part_length = std::max(kPartElements, (count + kParts - 1) / kParts);
  const int64_t part_count = (count + part_length - 1) / part_length;
  std::array<double, kParts> sums = {};
  at::parallel_for(0, part_count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t start = part * part_length;
      sums[static_cast<size_t>(part)] =
          sum_of_squares(values + start, std::min(part_length, count - start));
    }
  });
  double total = 0;
  for (int64_t part = 0; part < part_count; ++part) total += sums[static_cast<size_t>(part)];
  return total;
}

}  // namespace

at::Tensor squared_distance(const at::Tensor& copy, const at::Tensor& weights) {
  LEEWAY_CHECK(copy.is_contiguous() && weights.is_contiguous(), "the buffers are contiguous");
  LEEWAY_CHECK(copy.sizes() == weights.sizes(), "a copy is as long as the weights");
  if (is_on_gpu(weights)) {
    const bool half = copy.scalar_type() == at::kBFloat16;
    LEEWAY_CHECK(weights.scalar_type() == at::kFloat && (half || copy.scalar_type() == at::kFloat),
                 "weights of a GPU are fp32, their copies fp32 or bf16");
    LEEWAY_CUDA_TWIN({
      const CudaScope scope(weights);
      const at::TensorOptions sums = weights.options().dtype(at::kDouble);
      const at::Tensor parts = at::empty({cuda::distance_parts(weights.numel())}, sums);
      at::Tensor total = at::empty({1}, sums);
      cuda::squared_distance({.weights = scope.data<float>(weights),
                              .copy = scope.data<void>(copy),
                              .half = half,
                              .count = weights.numel(),
                              .parts = scope.data<double>(parts),
                              .total = scope.data<double>(total)},
                             scope.stream());
      return total;
    });
  }
  const at::Tensor difference =
      copy.to(weights.scalar_type(), /*non_blocking=*/false, /*copy=*/true).sub_(weights);
  const double sum = difference.scalar_type() == at::kDouble
                         ? sum_in_parts(difference.const_data_ptr<double>(), difference.numel())
                         : sum_in_parts(difference.const_data_ptr<float>(), difference.numel());
  return at::full({1}, sum, at::kDouble);
}

ParameterNorms::ParameterNorms(const ParameterLayout& layout, const at::Device& device)
    : count_(parameter_count(layout)) {
  for (const Parameter& parameter : layout) {
    for (int64_t done = 0; done < parameter.count(); done += kPartElements) {
      parts_.push_back({.offset = parameter.offset + done,
                        .count = std::min(kPartElements, parameter.count() - done)});
    }
    ends_.push_back(static_cast<int64_t>(parts_.size()));
  }
  if (device.is_cpu() || layout.empty()) return;
  const auto numbers = [](auto& list, int64_t fields) {
    return at::from_blob(list.data(), {static_cast<int64_t>(list.size()) * fields}, at::kLong);
  };
  on_device_ = at::cat({numbers(parts_, 2), numbers(ends_, 1)}).to(device);
}

template <class Scalar>
void ParameterNorms::sum_parts(const Scalar* values, std::vector<double>& sums) const {
  at::parallel_for(0, static_cast<int64_t>(parts_.size()), kPartsPerThread,
                   [&](int64_t begin, int64_t end) {
                     for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                       sums[i] = sum_of_squares(values + parts_[i].offset, parts_[i].count);
                     }
                   });
}

at::Tensor ParameterNorms::squares(const at::Tensor& flat) const {
  LEEWAY_CHECK(flat.is_contiguous(), "the buffer is contiguous");
  LEEWAY_CHECK(flat.numel() == count_, "the buffer is as long as the layout");
  const auto parameters = static_cast<int64_t>(ends_.size());
  at::Tensor squares = at::zeros({parameters}, flat.options().dtype(at::kDouble));
  if (parameters == 0) return squares;
  if (is_on_gpu(flat)) {
    LEEWAY_CUDA_TWIN({
      const auto parts = static_cast<int64_t>(parts_.size());
      const at::Tensor sums = at::empty({parts}, squares.options());
      const auto* const table = on_device_.const_data_ptr<int64_t>();
      cuda::parameter_norms({.values = flat.const_data_ptr<float>(),
                             .parts = table,
                             .ends = table + 2 * parts,
                             .part_count = parts,
                             .parameter_count = parameters,
                             .sums = sums.mutable_data_ptr<double>(),
                             .squares = squares.mutable_data_ptr<double>()},
                            CudaScope(flat).stream());
    });
    return squares;
  }
  std::vector<double> sums(parts_.size());
  if (flat.scalar_type() == at::kDouble) {
    sum_parts(flat.const_data_ptr<double>(), sums);
  } else {
    sum_parts(flat.const_data_ptr<float>(), sums);
  }
  size_t part = 0;
  auto* const results = squares.mutable_data_ptr<double>();
  for (size_t i = 0; i < ends_.size(); ++i) {
    for (; part < static_cast<size_t>(ends_[i]); ++part) results[i] += sums[part];
  }
  return squares;
}

}  // namespace leeway
