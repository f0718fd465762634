#include "averaging/lowbit.h"

#include "base/check.h"
#include "kernels/merges.h"

namespace leeway {
namespace {

void check_arguments(const LowbitMergeArguments& arguments) {
  const at::Tensor& weights = arguments.weights;
  const auto fits = [&](const at::Tensor& values) {
    return values.numel() == arguments.subset.count() && values.is_contiguous() &&
           values.scalar_type() == weights.scalar_type();
  };
  const auto is_flat = [&](const at::Tensor& flat) {
    return flat.numel() == arguments.subset.parameters && flat.is_contiguous();
  };
  LEEWAY_CHECK(is_flat(weights), "the weights are as long as the stage");
  LEEWAY_CHECK(fits(arguments.answer), "the answer covers the subset, in the weights' type");
  LEEWAY_CHECK(!arguments.own.defined() || fits(arguments.own), "what was sent covers the subset");
  LEEWAY_CHECK(!arguments.compute.defined() || is_flat(arguments.compute),
               "the compute copy is as long as the stage");
}

}  // namespace

LowbitBuffers make_lowbit_buffers(const LowbitOptions& options, const at::Tensor& weights) {
  LowbitBuffers buffers;
  buffers.common = weights.clone();
  buffers.flight = at::zeros_like(weights);
  if (options.smoothing != 0) buffers.pending = at::zeros_like(weights);
  if (options.gain != 0) buffers.momentum = at::zeros_like(weights);
  buffers.residual = at::zeros_like(weights);
  return buffers;
}

at::Tensor own_steps(const LowbitOptions& options, const Subset& subset, const at::Tensor& weights,
                     const LowbitBuffers& buffers) {
  at::Tensor steps = gather(subset, weights).sub_(gather(subset, buffers.common));
  if (buffers.pending.defined()) steps.add_(gather(subset, buffers.pending), options.smoothing);
  return steps;
}

at::Tensor contribute_steps(const LowbitOptions& options, const Subset& subset,
                            const RandomKey& key, const at::Tensor& weights,
                            LowbitBuffers& buffers) {
  const UnsentSteps kept = {.weights = weights,
                            .common = buffers.common,
                            .pending = buffers.pending,
                            .smoothing = options.smoothing,
                            .flight = buffers.flight};
  if (const at::Tensor encoded = contribute_in_one_pass(options.wire, subset, kept);
      encoded.defined()) {
    return encoded;
  }
  const at::Tensor flight = gather(subset, buffers.flight);
  const at::Tensor unsent = own_steps(options, subset, weights, buffers).sub_(flight);
  const at::Tensor encoded = encode(options.wire, unsent, key);
  const at::Tensor said = decode(options.wire, encoded, unsent.numel(), unsent.scalar_type());
  scatter(subset, flight + said, buffers.flight);
  return encoded;
}

ReducedSteps reduce_steps(const LowbitOptions& options, const Subset& subset,
                          const std::vector<at::Tensor>& contributions, int64_t members,
                          const RandomKey& key, LowbitBuffers& buffers) {
  const FiniteMean mean = mean_of_finite(contributions, /*if_none=*/0);
  // A tensor, not a number: how many are finite may be known only to the device.
  const at::Tensor came = mean.sums.slice(0, FiniteMean::kFirstValue).sum();
  const at::Tensor share = came.div(members).to(mean.mean.scalar_type());
  const OwedSteps steps = {.mean = mean.mean, .share = share, .residual = buffers.residual};
  if (const at::Tensor encoded = reduce_in_one_pass(options.wire, subset, steps);
      encoded.defined()) {
    return {.answer = encoded, .sums = mean.sums};
  }
  const at::Tensor owed = (mean.mean * share).add_(gather(subset, buffers.residual));
  const at::Tensor encoded = encode(options.wire, owed, key);
  const at::Tensor said = decode(options.wire, encoded, owed.numel(), owed.scalar_type());
  scatter(subset, owed - said, buffers.residual);
  return {.answer = encoded, .sums = mean.sums};
}

MergeSums merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                      LowbitBuffers& buffers) {
  check_arguments(arguments);
  const StepsConstants constants = {.smoothing = options.smoothing,
                                    .gain = options.gain,
                                    .gain_smoothing = options.gain_smoothing};
  return {.count = arguments.subset.count(),
          .sums = merge_steps(constants, {.subset = arguments.subset,
                                          .answer = arguments.answer,
                                          .own = arguments.own,
                                          .weights = arguments.weights,
                                          .common = buffers.common,
                                          .flight = buffers.flight,
                                          .pending = buffers.pending,
                                          .momentum = buffers.momentum,
                                          .compute = arguments.compute})};
}

void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers) {
  scatter(subset, gather(subset, buffers.flight) - sent, buffers.flight);
}

}  // namespace leeway
