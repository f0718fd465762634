// Merges written with ATen operations, one after the other: what the kernels are compared with.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "averaging/lowbit.h"
#include "averaging/merge.h"
#include "averaging/subset.h"
#include "subsets.h"

namespace leeway {

// A subset as a list of coordinates.
class ListedSubset {
 public:
  explicit ListedSubset(const Subset& subset)
      : coordinates_(at::tensor(coordinates_of(subset), at::kLong)) {}

  at::Tensor gather(const at::Tensor& flat) const { return flat.index_select(0, coordinates_); }
  void scatter(const at::Tensor& values, const at::Tensor& flat) const {
    at::Tensor target = flat;
    target.index_copy_(0, coordinates_, values.to(flat.scalar_type()));
  }

 private:
  at::Tensor coordinates_;
};

inline at::Tensor sum_of_squares_of(const at::Tensor& values) {
  return values.to(at::kDouble).square().sum();
}

// Mean over the values of |value - mean|^2: the squared spread of the replicas.
inline double spread_of(const std::vector<at::Tensor>& values, const at::Tensor& mean) {
  double sum = 0;
  for (const at::Tensor& own : values) {
    sum += sum_of_squares_of(own.to(at::kDouble) - mean.to(at::kDouble)).item<double>();
  }
  return sum / static_cast<double>(values.size());
}

inline MergeSums reference_merge(const MergeOptions& options, const MergeArguments& arguments,
                                 MergeBuffers& buffers) {
  const double ema_keep = ema_constant(options, arguments.round);
  const ListedSubset view(arguments.subset);
  const at::Tensor old = view.gather(arguments.weights);
  at::Tensor target = arguments.mean;
  const bool sent = arguments.sent.defined();
  if (options.has_outer() && !sent) {
    view.scatter(at::zeros_like(target), buffers.outer);
    view.scatter(target, buffers.anchor);
  } else if (options.has_outer()) {
    const at::Tensor anchor = view.gather(buffers.anchor);
    const at::Tensor distance = anchor - target;
    const at::Tensor velocity = view.gather(buffers.outer) * options.outer_momentum + distance;
    target = anchor - (distance + velocity * options.outer_momentum) * options.outer_rate;
    view.scatter(velocity, buffers.outer);
    view.scatter(target, buffers.anchor);
  }
  const at::Tensor steps = sent ? old - arguments.sent : at::zeros_like(old);
  at::Tensor added = steps;
  if (options.has_ema()) {
    added = view.gather(buffers.ema) * ema_keep + steps * (1 - ema_keep);
    view.scatter(added, buffers.ema);
  }
  const bool keeps_steps = options.correction != Correction::kNone;
  const at::Tensor merged = keeps_steps && sent ? target + added : target;
  view.scatter(merged, arguments.weights);
  if (arguments.compute.defined()) view.scatter(merged, arguments.compute);
  return {.count = arguments.subset.count(),
          .sums = at::stack({sum_of_squares_of(steps), sum_of_squares_of(merged - old)})};
}

// The product before the sum: a machine may round both at once, where it is given both.
inline MergeSums reference_merge_steps(const LowbitOptions& options,
                                       const LowbitMergeArguments& arguments,
                                       LowbitBuffers& buffers) {
  const ListedSubset view(arguments.subset);
  const at::Tensor& answer = arguments.answer;
  at::Tensor drift = at::zeros({}, at::kDouble);
  const at::Tensor old = view.gather(arguments.weights);
  at::Tensor common = view.gather(buffers.common);
  at::Tensor beyond = old - common;
  at::Tensor due = answer;
  if (arguments.own.defined()) {
    drift = sum_of_squares_of(arguments.own);
    beyond = beyond - arguments.own;
    due = answer - arguments.own;
    view.scatter(view.gather(buffers.flight) - arguments.own, buffers.flight);
  }
  if (buffers.pending.defined()) {
    const at::Tensor kept = view.gather(buffers.pending) * options.smoothing;
    const at::Tensor pending = kept + due;
    view.scatter(pending, buffers.pending);
    beyond = beyond + kept;
    beyond = beyond - pending * options.smoothing;
  }
  common = common + answer;
  if (buffers.momentum.defined()) {
    const at::Tensor kept = view.gather(buffers.momentum) * options.gain_smoothing;
    const at::Tensor momentum = kept + answer * (1 - options.gain_smoothing);
    view.scatter(momentum, buffers.momentum);
    const at::Tensor gained = momentum * options.gain;
    common = common + gained;
  }
  view.scatter(common, buffers.common);
  const at::Tensor merged = common + beyond;
  view.scatter(merged, arguments.weights);
  if (arguments.compute.defined()) view.scatter(merged, arguments.compute);
  return {.count = arguments.subset.count(),
          .sums = at::stack({drift, sum_of_squares_of(merged - old)})};
}

}  // namespace leeway
