#include "averaging/lowbit.h"

#include <ATen/Parallel.h>

#include "averaging/blocks.h"
#include "averaging/gather.h"
#include "base/check.h"

namespace leeway {
namespace {

constexpr int64_t kElementsPerThread = kBlocksPerThread * kBlockElements;

template <class Scalar>
void add_steps_cpu(const at::Tensor& before, const at::Tensor& weights, const at::Tensor& unsent) {
  const auto* const from = before.const_data_ptr<Scalar>();
  const auto* const to = weights.const_data_ptr<Scalar>();
  auto* const sum = unsent.mutable_data_ptr<Scalar>();
  at::parallel_for(0, unsent.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    add_difference(from + begin, to + begin, end - begin, sum + begin);
  });
}

// Writes what the encoding dropped from `values` back to `flat`.
at::Tensor encode_with_feedback(const LowbitOptions& options, const Subset& subset,
                                const at::Tensor& values, const RandomKey& key,
                                const at::Tensor& flat) {
  const at::Tensor encoded = encode(options.wire, values, key);
  const at::Tensor said = decode(options.wire, encoded, values.numel(), values.scalar_type());
  scatter(subset, values - said, flat);
  return encoded;
}

template <class Scalar>
MergeNorms merge_steps_cpu(const StepsConstants& constants, const LowbitMergeArguments& arguments,
                           LowbitBuffers& buffers) {
  const auto* const answer = arguments.answer.const_data_ptr<Scalar>();
  const auto* const sent =
      arguments.contributed ? arguments.sent.const_data_ptr<Scalar>() : nullptr;
  SizeSums sums(arguments.subset.count());
  for_blocks(arguments.subset, [&](const RunRange& range) {
    const BufferBlock<Scalar> weights(range, arguments.weights);
    const BufferBlock<Scalar> pending(range, buffers.pending);
    const BufferBlock<Scalar> momentum(range, buffers.momentum);
    sums.of(range) =
        merge_steps_block<Scalar>(constants, {.count = range.count(),
                                              .answer = answer + range.first,
                                              .sent = sent ? sent + range.first : nullptr,
                                              .weights = weights.data(),
                                              .pending = pending.data(),
                                              .momentum = momentum.data()});
    weights.store();
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
  LEEWAY_CHECK(!arguments.contributed || arguments.sent.defined(),
               "a contributor has sent something");
  LEEWAY_CHECK(is_flat(weights), "the weights are as long as the stage");
  LEEWAY_CHECK(fits(arguments.answer), "the answer covers the subset, in the weights' type");
  LEEWAY_CHECK(!arguments.sent.defined() || fits(arguments.sent),
               "what was sent covers the subset");
  LEEWAY_CHECK(!arguments.compute.defined() || is_flat(arguments.compute),
               "the compute copy is as long as the stage");
}

}  // namespace

LowbitBuffers make_lowbit_buffers(const LowbitOptions& options, const at::Tensor& weights) {
  LowbitBuffers buffers;
  buffers.unsent = at::zeros_like(weights);
  if (options.smoothing != 0) buffers.pending = at::zeros_like(weights);
  if (options.gain != 0) buffers.momentum = at::zeros_like(weights);
  buffers.residual = at::zeros_like(weights);
  return buffers;
}

void add_steps(const at::Tensor& before, const at::Tensor& weights, LowbitBuffers& buffers) {
  LEEWAY_CHECK(before.numel() == weights.numel(), "the same weights before and after");
  LEEWAY_CHECK(buffers.unsent.numel() == weights.numel(), "made by make_lowbit_buffers()");
  if (!weights.device().is_cpu()) {
    buffers.unsent.add_(weights - before);
  } else if (weights.scalar_type() == at::kDouble) {
    add_steps_cpu<double>(before, weights, buffers.unsent);
  } else {
    add_steps_cpu<float>(before, weights, buffers.unsent);
  }
}

at::Tensor contribute_steps(const LowbitOptions& options, const Subset& subset,
                            const RandomKey& key, LowbitBuffers& buffers) {
  const at::Tensor steps = gather(subset, buffers.unsent);
  return encode_with_feedback(options, subset, steps, key, buffers.unsent);
}

at::Tensor reduce_steps(const LowbitOptions& options, const Subset& subset,
                        const std::vector<at::Tensor>& contributions, const RandomKey& key,
                        LowbitBuffers& buffers) {
  const at::Tensor owed = mean_of(contributions) + gather(subset, buffers.residual);
  return encode_with_feedback(options, subset, owed, key, buffers.residual);
}

MergeNorms merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                       LowbitBuffers& buffers) {
  check_arguments(arguments);
  if (!arguments.contributed && arguments.sent.defined()) {
    take_back_steps(arguments.subset, arguments.sent, buffers);
  }
  if (!arguments.weights.device().is_cpu()) return merge_steps_aten(options, arguments, buffers);
  const StepsConstants constants = {.smoothing = options.smoothing,
                                    .gain = options.gain,
                                    .gain_smoothing = options.gain_smoothing};
  if (arguments.weights.scalar_type() == at::kDouble) {
    return merge_steps_cpu<double>(constants, arguments, buffers);
  }
  return merge_steps_cpu<float>(constants, arguments, buffers);
}

MergeNorms merge_steps_aten(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                            LowbitBuffers& buffers) {
  const SubsetView view(arguments.subset, arguments.weights.device());
  MergeNorms norms = {.count = arguments.subset.count()};
  at::Tensor change = arguments.answer;
  if (arguments.contributed) {
    norms.drift = arguments.sent.to(at::kDouble).square().sum().item<double>();
    change = arguments.answer - arguments.sent;
    if (buffers.pending.defined()) {
      const at::Tensor pending = view.gather(buffers.pending) * options.smoothing + change;
      view.scatter(pending, buffers.pending);
      change = pending * (1 - options.smoothing);
    }
  }
  if (buffers.momentum.defined()) {
    const at::Tensor momentum = view.gather(buffers.momentum) * options.gain_smoothing +
                                arguments.answer * (1 - options.gain_smoothing);
    view.scatter(momentum, buffers.momentum);
    change = change + momentum * options.gain;
  }
  const at::Tensor old = view.gather(arguments.weights);
  const at::Tensor merged = old + change;
  view.scatter(merged, arguments.weights);
  if (arguments.compute.defined()) view.scatter(merged, arguments.compute);
  norms.correction = (merged - old).to(at::kDouble).square().sum().item<double>();
  return norms;
}

void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers) {
  scatter(subset, gather(subset, buffers.unsent) + sent, buffers.unsent);
}

}  // namespace leeway
