// Means over replicas: what an owner does with the parts of a round.
#pragma once

#include <ATen/ATen.h>

#include <limits>
#include <vector>

namespace leeway {

// The mean, added up in fp64 in the order given (ascending by replica); in the values' type.
at::Tensor mean_of(const std::vector<at::Tensor>& values);

struct FiniteMean {
  at::Tensor mean;
  // fp64, on the values' device: |mean|^2; the mean over the finite values of |value - mean|^2;
  // then for each value 1 if it is finite throughout, else 0. Nothing waits for them.
  at::Tensor sums;

  static constexpr int64_t kScale = 0;
  static constexpr int64_t kSpread = 1;
  static constexpr int64_t kFirstValue = 2;
};
// The mean of those that are finite throughout: one replica that has diverged must not take the
// others with it. If none is, the mean is `if_none` everywhere and the spread 0.
FiniteMean mean_of_finite(const std::vector<at::Tensor>& values,
                          double if_none = std::numeric_limits<double>::quiet_NaN());

}  // namespace leeway
