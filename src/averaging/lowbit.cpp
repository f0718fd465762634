#include "averaging/lowbit.h"

#include "averaging/blocks.h"
#include "averaging/gather.h"
#include "base/check.h"

namespace leeway {
namespace {

template <class Scalar>
MergeNorms merge_steps_cpu(const StepsConstants& constants, const LowbitMergeArguments& arguments,
                           LowbitBuffers& buffers) {
  const auto* const answer = arguments.answer.const_data_ptr<Scalar>();
  const auto* const own =
      arguments.own.defined() ? arguments.own.const_data_ptr<Scalar>() : nullptr;
  SizeSums sums(arguments.subset.count());
  for_blocks(arguments.subset, [&](const RunRange& range) {
    const BufferBlock<Scalar> weights(range, arguments.weights);
    const BufferBlock<Scalar> common(range, buffers.common);
    const BufferBlock<Scalar> flight(range, own ? buffers.flight : at::Tensor());
    const BufferBlock<Scalar> pending(range, buffers.pending);
    const BufferBlock<Scalar> momentum(range, buffers.momentum);
    sums.of(range) = merge_steps_block<Scalar>(constants, {.count = range.count(),
                                                           .answer = answer + range.first,
                                                           .own = own ? own + range.first : nullptr,
                                                           .weights = weights.data(),
                                                           .common = common.data(),
                                                           .flight = flight.data(),
                                                           .pending = pending.data(),
                                                           .momentum = momentum.data()});
    weights.store();
    common.store();
    if (own) flight.store();
    pending.store();
    momentum.store();
    write_compute<Scalar>(range, arguments.weights, arguments.compute);
  });
  return sums.norms();
}

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
  const at::Tensor flight = gather(subset, buffers.flight);
  const at::Tensor unsent = own_steps(options, subset, weights, buffers).sub_(flight);
  const at::Tensor encoded = encode(options.wire, unsent, key);
  const at::Tensor said = decode(options.wire, encoded, unsent.numel(), unsent.scalar_type());
  scatter(subset, flight + said, buffers.flight);
  return encoded;
}

at::Tensor reduce_steps(const LowbitOptions& options, const Subset& subset,
                        const std::vector<at::Tensor>& contributions, int64_t members,
                        const RandomKey& key, LowbitBuffers& buffers) {
  at::Tensor owed = mean_of(contributions);
  const auto came = static_cast<int64_t>(contributions.size());
  if (came != members) owed.mul_(static_cast<double>(came) / static_cast<double>(members));
  owed.add_(gather(subset, buffers.residual));
  const at::Tensor encoded = encode(options.wire, owed, key);
  const at::Tensor said = decode(options.wire, encoded, owed.numel(), owed.scalar_type());
  scatter(subset, owed - said, buffers.residual);
  return encoded;
}

MergeNorms merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                       LowbitBuffers& buffers) {
  check_arguments(arguments);
  if (!arguments.weights.device().is_cpu()) return merge_steps_aten(options, arguments, buffers);
  const StepsConstants constants = {.smoothing = options.smoothing,
                                    .gain = options.gain,
                                    .gain_smoothing = options.gain_smoothing};
  if (arguments.weights.scalar_type() == at::kDouble) {
    return merge_steps_cpu<double>(constants, arguments, buffers);
  }
  return merge_steps_cpu<float>(constants, arguments, buffers);
}

// The product before the sum: a device may round both at once, where it is given both.
MergeNorms merge_steps_aten(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                            LowbitBuffers& buffers) {
  const SubsetView view(arguments.subset, arguments.weights.device());
  const at::Tensor& answer = arguments.answer;
  MergeNorms norms = {.count = arguments.subset.count()};
  const at::Tensor old = view.gather(arguments.weights);
  at::Tensor common = view.gather(buffers.common);
  at::Tensor beyond = old - common;
  at::Tensor due = answer;
  if (arguments.own.defined()) {
    norms.drift = arguments.own.to(at::kDouble).square().sum().item<double>();
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
  norms.correction = (merged - old).to(at::kDouble).square().sum().item<double>();
  return norms;
}

void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers) {
  scatter(subset, gather(subset, buffers.flight) - sent, buffers.flight);
}

}  // namespace leeway
