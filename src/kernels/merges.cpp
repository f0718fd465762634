#include "kernels/merges.h"

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/cuda_glue.h"
#include "kernels/wire_blocks.h"
#if LEEWAY_CUDA
#include "kernels/merges_cuda.h"
#endif

namespace leeway {
namespace {

// Runs at least this long are merged in place; shorter ones are gathered first, so that the loops
// work on whole vectors.
constexpr int64_t kLongRun = 32;

template <class Scalar>
Scalar* start_of(const at::Tensor& flat) {
  return flat.defined() ? flat.mutable_data_ptr<Scalar>() : nullptr;
}

template <class Scalar>
BlockSums merge_in_place(const MergeConstants& constants, MergeBlock<Scalar> block,
                         const MergedWeights& merged) {
  block.weights = start_of<Scalar>(merged.weights);
  block.ema = start_of<Scalar>(merged.ema);
  block.anchor = start_of<Scalar>(merged.anchor);
  block.outer = start_of<Scalar>(merged.outer);
  return merge_block(constants, block);
}

template <class Scalar>
BlockSums merge_collected(const MergeConstants& constants, MergeBlock<Scalar> block,
                          const MergedWeights& merged) {
  const BufferBlock<Scalar> weights(block.range, merged.weights);
  const BufferBlock<Scalar> ema(block.range, merged.ema);
  const BufferBlock<Scalar> anchor(block.range, merged.anchor);
  const BufferBlock<Scalar> outer(block.range, merged.outer);
  block.weights = weights.data();
  block.ema = ema.data();
  block.anchor = anchor.data();
  block.outer = outer.data();
  const int64_t begin = 0;  // one run: everything gathered
  const int64_t count = block.range.count();
  block.range = {.begins = &begin, .runs = 1, .granularity = count, .first = 0, .last = count};
  const BlockSums sums = merge_block(constants, block);
  weights.store();
  ema.store();
  anchor.store();
  outer.store();
  return sums;
}

template <class Scalar>
at::Tensor merge_weights_cpu(const MergeConstants& constants, const MergedWeights& merged) {
  const auto* const mean = merged.mean.const_data_ptr<Scalar>();
  const auto* const sent = merged.sent.defined() ? merged.sent.const_data_ptr<Scalar>() : nullptr;
  const bool in_place = merged.subset.granularity() >= kLongRun;
  SizeSums sums(merged.subset.count());
  for_blocks(merged.subset, [&](const RunRange& range) {
    const MergeBlock<Scalar> block = {
        .range = range, .mean = mean + range.first, .sent = sent ? sent + range.first : nullptr};
    sums.of(range) = in_place ? merge_in_place(constants, block, merged)
                              : merge_collected(constants, block, merged);
    write_compute<Scalar>(range, merged.weights, merged.compute);
  });
  return sums.totals();
}

template <class Scalar>
at::Tensor merge_steps_cpu(const StepsConstants& constants, const MergedSteps& merged) {
  const auto* const answer = merged.answer.const_data_ptr<Scalar>();
  const auto* const own = merged.own.defined() ? merged.own.const_data_ptr<Scalar>() : nullptr;
  SizeSums sums(merged.subset.count());
  for_blocks(merged.subset, [&](const RunRange& range) {
    const BufferBlock<Scalar> weights(range, merged.weights);
    const BufferBlock<Scalar> common(range, merged.common);
    const BufferBlock<Scalar> flight(range, own ? merged.flight : at::Tensor());
    const BufferBlock<Scalar> pending(range, merged.pending);
    const BufferBlock<Scalar> momentum(range, merged.momentum);
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
    flight.store();
    pending.store();
    momentum.store();
    write_compute<Scalar>(range, merged.weights, merged.compute);
  });
  return sums.totals();
}

#if LEEWAY_CUDA
// Memory of the stream's own, for the time that the kernels take.
struct SumsOnDevice {
  SumsOnDevice(const at::Tensor& weights, int64_t count)
      : sums(at::empty({2}, weights.options().dtype(at::kDouble))),
        scratch(at::empty({merge_scratch(count)}, sums.options())) {}
  at::Tensor sums;
  at::Tensor scratch;
};

MergeOutput output_of(const at::Tensor& weights, const at::Tensor& compute,
                      const SumsOnDevice& sums, const CudaScope& scope) {
  LEEWAY_CHECK(weights.scalar_type() == at::kFloat, "weights on a GPU are fp32");
  const bool is_bf16 = compute.defined() && compute.scalar_type() == at::kBFloat16;
  LEEWAY_CHECK(!compute.defined() || is_bf16 || compute.scalar_type() == at::kFloat,
               "a compute copy on a GPU is fp32 or bf16");
  return {.weights = scope.data<float>(weights),
          .compute = scope.data<void>(compute),
          .compute_is_bf16 = is_bf16,
          .scratch = scope.data<double>(sums.scratch),
          .sums = scope.data<double>(sums.sums),
          .stream = scope.stream()};
}

at::Tensor merge_weights_on_device(const MergeConstants& constants, const MergedWeights& merged) {
  const CudaScope scope(merged.weights);
  const SumsOnDevice sums(merged.weights, merged.subset.count());
  const WeightsMerge merge = {.keeps_steps = constants.keeps_steps,
                              .ema_keep = static_cast<float>(constants.ema_keep),
                              .ema_share = static_cast<float>(1 - constants.ema_keep),
                              .outer_rate = static_cast<float>(constants.outer_rate),
                              .outer_momentum = static_cast<float>(constants.outer_momentum),
                              .mean = scope.data<float>(merged.mean),
                              .sent = scope.data<float>(merged.sent),
                              .ema = scope.data<float>(merged.ema),
                              .anchor = scope.data<float>(merged.anchor),
                              .outer = scope.data<float>(merged.outer)};
  merge_weights_cuda(merged.subset, merge, output_of(merged.weights, merged.compute, sums, scope));
  return sums.sums;
}

StepsMerge steps_merge(const StepsConstants& constants, const MergedSteps& merged,
                       const CudaScope& scope) {
  return {.has_own = merged.own.defined(),
          .smoothing = static_cast<float>(constants.smoothing),
          .gain = static_cast<float>(constants.gain),
          .gain_keep = static_cast<float>(constants.gain_smoothing),
          .gain_share = static_cast<float>(1 - constants.gain_smoothing),
          .common = scope.data<float>(merged.common),
          .flight = scope.data<float>(merged.flight),
          .pending = scope.data<float>(merged.pending),
          .momentum = scope.data<float>(merged.momentum)};
}

at::Tensor merge_steps_on_device(const StepsConstants& constants, const MergedSteps& merged) {
  const CudaScope scope(merged.weights);
  const SumsOnDevice sums(merged.weights, merged.subset.count());
  const DecodedSteps steps = {.merge = steps_merge(constants, merged, scope),
                              .answer = scope.data<float>(merged.answer),
                              .own = scope.data<float>(merged.own)};
  merge_steps_cuda(merged.subset, steps, output_of(merged.weights, merged.compute, sums, scope));
  return sums.sums;
}

at::Tensor merge_ternary_on_device(const StepsConstants& constants, const MergedSteps& merged) {
  const CudaScope scope(merged.weights);
  const SumsOnDevice sums(merged.weights, merged.subset.count());
  const TernarySteps steps = {.merge = steps_merge(constants, merged, scope),
                              .answer = scope.data<const uint8_t>(merged.answer),
                              .own = scope.data<const uint8_t>(merged.own)};
  merge_ternary_cuda(merged.subset, steps, output_of(merged.weights, merged.compute, sums, scope));
  return sums.sums;
}
#else
at::Tensor merge_weights_on_device(const MergeConstants&, const MergedWeights&) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
at::Tensor merge_steps_on_device(const StepsConstants&, const MergedSteps&) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
at::Tensor merge_ternary_on_device(const StepsConstants&, const MergedSteps&) {
  LEEWAY_UNREACHABLE(kNoCuda);
}
#endif

}  // namespace

at::Tensor merge_weights(const MergeConstants& constants, const MergedWeights& merged) {
  if (is_on_gpu(merged.weights)) return merge_weights_on_device(constants, merged);
  return merged.weights.scalar_type() == at::kDouble ? merge_weights_cpu<double>(constants, merged)
                                                     : merge_weights_cpu<float>(constants, merged);
}

at::Tensor merge_steps(const StepsConstants& constants, const MergedSteps& merged) {
  if (is_on_gpu(merged.weights)) return merge_steps_on_device(constants, merged);
  return merged.weights.scalar_type() == at::kDouble ? merge_steps_cpu<double>(constants, merged)
                                                     : merge_steps_cpu<float>(constants, merged);
}

at::Tensor merge_coded_steps(WireFormat format, const StepsConstants& constants,
                             const MergedSteps& merged) {
  if (!is_coded_in_one_pass(format, merged.subset, merged.weights)) return {};
  const auto is_own_code = [&](const at::Tensor& encoded) {
    return is_code(format, encoded, merged.subset.count());
  };
  if (!is_own_code(merged.answer)) return {};
  if (merged.own.defined() && !is_own_code(merged.own)) return {};
  return merge_ternary_on_device(constants, merged);
}

}  // namespace leeway
