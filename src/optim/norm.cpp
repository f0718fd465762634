#include "optim/norm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "optim/kernels.h"

namespace leeway {
namespace {

constexpr int64_t kParts = 1024;          // partial sums, on the stack
constexpr int64_t kPartElements = 16384;  // at least: a part worth a thread's while

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

double squared_norm(const at::Tensor& flat) {
  LEEWAY_CHECK(flat.is_contiguous(), "the norm is of a flat buffer");
  if (!flat.device().is_cpu()) {
    return at::linalg_vector_norm(flat, 2, at::OptionalIntArrayRef(), false, at::kDouble)
        .square()
        .item<double>();
  }
  if (flat.scalar_type() == at::kDouble) {
    return sum_in_parts(flat.const_data_ptr<double>(), flat.numel());
  }
  return sum_in_parts(flat.const_data_ptr<float>(), flat.numel());
}

}  // namespace leeway
