#include "averaging/lowbit.h"

#include "base/check.h"
#include "kernels/merges.h"

namespace leeway {
namespace {

void check_arguments(const LowbitMergeArguments& arguments) {
  const auto is_flat = [&](const at::Tensor& flat) {
    return flat.numel() == arguments.subset.parameters && flat.is_contiguous();
  };
  LEEWAY_CHECK(is_flat(arguments.weights), "the weights are as long as the stage");
  LEEWAY_CHECK(arguments.answer.is_contiguous(), "an answer is flat");
  LEEWAY_CHECK(!arguments.own.defined() || arguments.own.is_contiguous(), "what was sent is flat");
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

at::Tensor decode_steps(WireFormat wire, const at::Tensor& encoded, int64_t count,
                        at::ScalarType type) {
  return decode(encoded.scalar_type() == type ? WireFormat::kF32 : wire, encoded, count, type);
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
  const UnsentSteps steps = {.weights = weights,
                             .common = buffers.common,
                             .pending = buffers.pending,
                             .smoothing = options.smoothing,
                             .flight = buffers.flight,
                             .under_way = {},
                             .threshold = options.threshold};
  at::Tensor encoded = contribute_in_one_pass(options.wire, subset, steps);
  if (encoded.defined()) return encoded;
  const at::Tensor own = own_steps(options, subset, weights, buffers);
  encoded = encode(options.wire, own - gather(subset, buffers.flight), key, options.threshold);
  count_steps(subset, decode(options.wire, encoded, own.numel(), own.scalar_type()), buffers);
  return encoded;
}

at::Tensor contribute_uncounted(const LowbitOptions& options, const Subset& subset,
                                const RandomKey& key, const at::Tensor& weights,
                                const LowbitBuffers& buffers,
                                const std::vector<at::Tensor>& under_way) {
  const UnsentSteps steps = {.weights = weights,
                             .common = buffers.common,
                             .pending = buffers.pending,
                             .smoothing = options.smoothing,
                             .flight = {},
                             .under_way = under_way,
                             .threshold = options.threshold};
  at::Tensor encoded = contribute_in_one_pass(options.wire, subset, steps);
  if (encoded.defined()) return encoded;
  const at::Tensor unsent = unsent_steps(options, subset, weights, buffers, under_way);
  return encode(options.wire, unsent, key, options.threshold);
}

at::Tensor unsent_steps(const LowbitOptions& options, const Subset& subset,
                        const at::Tensor& weights, const LowbitBuffers& buffers,
                        const std::vector<at::Tensor>& under_way) {
  at::Tensor unsent = own_steps(options, subset, weights, buffers);
  for (const at::Tensor& sent : under_way) {
    unsent.sub_(decode_steps(options.wire, sent, unsent.numel(), unsent.scalar_type()));
  }
  return unsent;
}

void count_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers) {
  scatter(subset, gather(subset, buffers.flight) + sent, buffers.flight);
}

ReducedSteps reduce_steps(const LowbitOptions& options, const Subset& subset,
                          const std::vector<at::Tensor>& contributions, int64_t members,
                          const RandomKey& key, LowbitBuffers& buffers) {
  const OwedSteps owed_steps = {
      .parts = contributions,
      .share = static_cast<double>(contributions.size()) / static_cast<double>(members),
      .residual = buffers.residual,
      .threshold = options.threshold};
  if (const CodedAnswer made = reduce_in_one_pass(options.wire, subset, owed_steps);
      made.code.defined()) {
    return {.answer = made.code, .sums = made.sums};
  }
  std::vector<at::Tensor> values;
  for (const at::Tensor& part : contributions) {
    values.push_back(
        decode_steps(options.wire, part, subset.count(), buffers.residual.scalar_type()));
  }
  const FiniteMean mean = mean_of_finite(values, /*if_none=*/0);
  // A tensor, not a number: how many are finite may be known only to the device.
  const at::Tensor came = mean.sums.slice(0, FiniteMean::kFirstValue).sum();
  const at::Tensor share = came.div(members).to(mean.mean.scalar_type());
  const at::Tensor owed = (mean.mean * share).add_(gather(subset, buffers.residual));
  const at::Tensor encoded = encode(options.wire, owed, key, options.threshold);
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
  const int64_t count = arguments.subset.count();
  MergedSteps merged = {.subset = arguments.subset,
                        .answer = arguments.answer,
                        .own = arguments.own,
                        .weights = arguments.weights,
                        .common = buffers.common,
                        .flight = arguments.counted ? buffers.flight : at::Tensor(),
                        .pending = buffers.pending,
                        .momentum = buffers.momentum,
                        .compute = arguments.compute};
  if (const at::Tensor sums = merge_coded_steps(options.wire, constants, merged); sums.defined()) {
    return {.count = count, .sums = sums};
  }
  for (at::Tensor* const steps : {&merged.answer, &merged.own}) {
    if (!steps->defined()) continue;
    *steps = decode_steps(options.wire, *steps, count, merged.weights.scalar_type());
  }
  return {.count = count, .sums = merge_steps(constants, merged)};
}

void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers) {
  scatter(subset, gather(subset, buffers.flight) - sent, buffers.flight);
}

}  // namespace leeway
