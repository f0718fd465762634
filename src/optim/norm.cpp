#include "optim/norm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/update_loops.h"

namespace leeway {
namespace {

constexpr int64_t kParts = 1024;          // partial sums, on the stack
constexpr int64_t kPartElements = 16384;  // minimum: smaller parts are not worth a thread

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

// A part of one parameter, for one thread.
struct NormPart {
  size_t parameter = 0;
  int64_t offset = 0;
  int64_t count = 0;
  double sum = 0;
};
constexpr int64_t kPartsPerThread = 8;  // minimum: with fewer, another thread does not pay off

template <class Scalar>
void sum_parts(const Scalar* values, std::vector<NormPart>& parts) {
  at::parallel_for(0, static_cast<int64_t>(parts.size()), kPartsPerThread,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       NormPart& part = parts[static_cast<size_t>(i)];
                       part.sum = sum_of_squares(values + part.offset, part.count);
                     }
                   });
}

// GPU reductions read aligned vectors of several elements, so they add an unaligned parameter in a
// different order. A copy is always aligned.
at::Tensor aligned(const at::Tensor& view) {
  constexpr uintptr_t kVectorBytes = 32;
  const auto address = reinterpret_cast<uintptr_t>(view.const_data_ptr());
  return address % kVectorBytes == 0 ? view : view.clone();
}

}  // namespace

double squared_norm(const at::Tensor& flat) {
  LEEWAY_CHECK(flat.is_contiguous(), "the buffer is contiguous");
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

std::vector<double> parameter_squared_norms(const at::Tensor& flat, const ParameterLayout& layout) {
  LEEWAY_CHECK(flat.is_contiguous(), "the buffer is contiguous");
  LEEWAY_CHECK(flat.numel() == parameter_count(layout), "the buffer is as long as the layout");
  if (!flat.device().is_cpu()) return parameter_squared_norms_aten(flat, layout);
  std::vector<NormPart> parts;
  for (size_t i = 0; i < layout.size(); ++i) {
    for (int64_t done = 0; done < layout[i].count(); done += kPartElements) {
      const int64_t count = std::min(kPartElements, layout[i].count() - done);
      parts.push_back({.parameter = i, .offset = layout[i].offset + done, .count = count});
    }
  }
  if (flat.scalar_type() == at::kDouble) {
    sum_parts(flat.const_data_ptr<double>(), parts);
  } else {
    sum_parts(flat.const_data_ptr<float>(), parts);
  }
  std::vector<double> sums(layout.size(), 0.0);
  for (const NormPart& part : parts) sums[part.parameter] += part.sum;
  return sums;
}

std::vector<double> parameter_squared_norms_aten(const at::Tensor& flat,
                                                 const ParameterLayout& layout) {
  if (layout.empty()) return {};
  std::vector<at::Tensor> parameters;
  parameters.reserve(layout.size());
  for (const Parameter& parameter : layout) {
    parameters.push_back(aligned(flat.narrow(0, parameter.offset, parameter.count())));
  }
  const at::Tensor norms = at::stack(at::_foreach_norm(parameters, 2, at::kDouble));
  const at::Tensor sums = norms.square_().cpu();
  const double* const first = sums.const_data_ptr<double>();
  return {first, first + sums.numel()};
}

}  // namespace leeway
