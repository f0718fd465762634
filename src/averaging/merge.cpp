#include "averaging/merge.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "averaging/blocks.h"
#include "averaging/gather.h"
#include "base/check.h"

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

// Runs at least this long are merged in place; shorter ones are gathered first, so that the loops
// work on whole vectors.
constexpr int64_t kLongRun = 32;

template <class Scalar>
Scalar* start_of(const at::Tensor& flat) {
  return flat.defined() ? flat.mutable_data_ptr<Scalar>() : nullptr;
}

template <class Scalar>
BlockSums merge_in_place(const MergeConstants& constants, MergeBlock<Scalar> block,
                         const at::Tensor& weights, const MergeBuffers& buffers) {
  block.weights = start_of<Scalar>(weights);
  block.ema = start_of<Scalar>(buffers.ema);
  block.anchor = start_of<Scalar>(buffers.anchor);
  block.outer = start_of<Scalar>(buffers.outer);
  return merge_block(constants, block);
}

template <class Scalar>
BlockSums merge_collected(const MergeConstants& constants, MergeBlock<Scalar> block,
                          const at::Tensor& flat_weights, const MergeBuffers& buffers) {
  const BufferBlock<Scalar> weights(block.range, flat_weights);
  const BufferBlock<Scalar> ema(block.range, buffers.ema);
  const BufferBlock<Scalar> anchor(block.range, buffers.anchor);
  const BufferBlock<Scalar> outer(block.range, buffers.outer);
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
MergeNorms merge_cpu(const MergeConstants& constants, const MergeArguments& arguments,
                     MergeBuffers& buffers) {
  const auto* const mean = arguments.mean.const_data_ptr<Scalar>();
  const auto* const sent =
      arguments.sent.defined() ? arguments.sent.const_data_ptr<Scalar>() : nullptr;
  const bool in_place = arguments.subset.granularity >= kLongRun;
  SizeSums sums(arguments.subset.count());
  for_blocks(arguments.subset, [&](const RunRange& range) {
    const MergeBlock<Scalar> block = {
        .range = range, .mean = mean + range.first, .sent = sent ? sent + range.first : nullptr};
    sums.of(range) = in_place ? merge_in_place(constants, block, arguments.weights, buffers)
                              : merge_collected(constants, block, arguments.weights, buffers);
    write_compute<Scalar>(range, arguments.weights, arguments.compute);
  });
  return sums.norms();
}

double sum_of_squares(const at::Tensor& values) {
  return values.to(at::kDouble).square().sum().item<double>();
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

MergeNorms merge(const MergeOptions& options, const MergeArguments& arguments,
                 MergeBuffers& buffers) {
  check_arguments(options, arguments, buffers);
  if (!arguments.weights.device().is_cpu()) return merge_aten(options, arguments, buffers);
  const MergeConstants constants = constants_of(options, arguments.round);
  if (arguments.weights.scalar_type() == at::kDouble) {
    return merge_cpu<double>(constants, arguments, buffers);
  }
  return merge_cpu<float>(constants, arguments, buffers);
}

MergeNorms merge_aten(const MergeOptions& options, const MergeArguments& arguments,
                      MergeBuffers& buffers) {
  const MergeConstants constants = constants_of(options, arguments.round);
  const SubsetView view(arguments.subset, arguments.weights.device());
  const at::Tensor old = view.gather(arguments.weights);
  at::Tensor target = arguments.mean;
  const bool sent = arguments.sent.defined();
  if (options.has_outer() && !sent) {
    view.scatter(at::zeros_like(target), buffers.outer);
    view.scatter(target, buffers.anchor);
  } else if (options.has_outer()) {
    const at::Tensor anchor = view.gather(buffers.anchor);
    const at::Tensor distance = anchor - target;
    const at::Tensor velocity = view.gather(buffers.outer) * constants.outer_momentum + distance;
    target = anchor - (distance + velocity * constants.outer_momentum) * constants.outer_rate;
    view.scatter(velocity, buffers.outer);
    view.scatter(target, buffers.anchor);
  }
  const at::Tensor steps = sent ? old - arguments.sent : at::zeros_like(old);
  at::Tensor added = steps;
  if (options.has_ema()) {
    added = view.gather(buffers.ema) * constants.ema_keep + steps * (1 - constants.ema_keep);
    view.scatter(added, buffers.ema);
  }
  const at::Tensor merged = constants.keeps_steps && sent ? target + added : target;
  view.scatter(merged, arguments.weights);
  if (arguments.compute.defined()) view.scatter(merged, arguments.compute);
  return {.count = arguments.subset.count(),
          .drift = sum_of_squares(steps),
          .correction = sum_of_squares(merged - old)};
}

}  // namespace leeway
