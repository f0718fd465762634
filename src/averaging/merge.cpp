#include "averaging/merge.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/merges.h"

namespace leeway {
namespace {

constexpr int64_t kEmaStartRounds = 1000;  // from the paper

MergeConstants constants_of(const MergeOptions& options, int64_t round) {
  return {.keeps_steps = options.correction != Correction::kNone,
          .ema_keep = ema_constant(options, round),
          .outer_rate = options.outer_rate,
          .outer_momentum = options.outer_momentum};
}

void check_arguments(const MergeOptions& options, const MergeArguments& arguments,
                     const MergeBuffers& buffers) {
  const int64_t count = arguments.subset.count();
  const at::Tensor& weights = arguments.weights;
  const auto fits = [&](const at::Tensor& values) {
    return values.numel() == count && values.is_contiguous() &&
           values.scalar_type() == weights.scalar_type();
  };
  const auto is_flat = [&](const at::Tensor& flat) {
    return flat.numel() == arguments.subset.parameters && flat.is_contiguous();
  };
  LEEWAY_CHECK(is_flat(weights), "the weights are as long as the stage");
  LEEWAY_CHECK(fits(arguments.mean), "the mean covers the subset, in the weights' type");
  LEEWAY_CHECK(!arguments.sent.defined() || fits(arguments.sent),
               "what was sent covers the subset");
  LEEWAY_CHECK(!arguments.compute.defined() || is_flat(arguments.compute),
               "the compute copy is as long as the stage");
  LEEWAY_CHECK(buffers.ema.defined() == options.has_ema(), "made by make_merge_buffers()");
  LEEWAY_CHECK(buffers.anchor.defined() == options.has_outer(), "made by make_merge_buffers()");
}

}  // namespace

double ema_constant(const MergeOptions& options, int64_t round) {
  const int64_t last = options.run_rounds - 1;
  if (round <= kEmaStartRounds || last <= kEmaStartRounds) return options.ema_start;
  const double progress = static_cast<double>(std::min(round, last) - kEmaStartRounds) /
                          static_cast<double>(last - kEmaStartRounds);
  const double left = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return options.ema_end + (options.ema_start - options.ema_end) * left;
}

MergeBuffers make_merge_buffers(const MergeOptions& options, const at::Tensor& weights) {
  MergeBuffers buffers;
  if (options.has_ema()) buffers.ema = at::zeros_like(weights);
  if (options.has_outer()) {
    buffers.anchor = weights.clone();
    buffers.outer = at::zeros_like(weights);
  }
  return buffers;
}

MergeSums merge(const MergeOptions& options, const MergeArguments& arguments,
                MergeBuffers& buffers) {
  check_arguments(options, arguments, buffers);
  return {.count = arguments.subset.count(),
          .sums = merge_weights(constants_of(options, arguments.round),
                                {.subset = arguments.subset,
                                 .mean = arguments.mean,
                                 .sent = arguments.sent,
                                 .weights = arguments.weights,
                                 .ema = buffers.ema,
                                 .anchor = buffers.anchor,
                                 .outer = buffers.outer,
                                 .compute = arguments.compute})};
}

}  // namespace leeway
