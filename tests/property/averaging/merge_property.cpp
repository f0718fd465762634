#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "../../support/reference_merge.h"
#include "../../support/subsets.h"
#include "averaging/merge.h"

namespace leeway {
namespace {

Correction any_correction() {
  return *rc::gen::element(Correction::kNone, Correction::kDelta, Correction::kEma);
}

void seed_torch() { at::manual_seed(*rc::gen::arbitrary<uint64_t>()); }

Subset any_subset(int64_t* parameters) {
  *parameters = *rc::gen::inRange<int64_t>(1, 5000);
  const Cut cut({.seed = *rc::gen::arbitrary<uint64_t>(),
                 .parameters = *parameters,
                 .fraction = *rc::gen::element(0.05, 0.3, 1.0),
                 .granularity = *rc::gen::element<int64_t>(1, 3, 64, 1500)});
  return cut.subset(*rc::gen::inRange<int64_t>(0, 100));
}

RC_GTEST_PROP(MeanOf, OfEqualInputsIsExact, ()) {
  seed_torch();
  const auto replicas = static_cast<size_t>(*rc::gen::inRange(1, 70));
  const at::Tensor values = at::randn({500}) * at::pow(10.0, at::randn({500}) * 5);
  RC_ASSERT(at::equal(mean_of(std::vector<at::Tensor>(replicas, values)), values));
}

RC_GTEST_PROP(Merge, EqualsTheReference, ()) {
  seed_torch();
  int64_t parameters = 0;
  const Subset subset = any_subset(&parameters);
  const auto type = *rc::gen::element(at::kFloat, at::kDouble);
  const MergeOptions options = {.correction = any_correction(),
                                .outer_rate = *rc::gen::element(1.0, 0.7),
                                .outer_momentum = *rc::gen::element(0.0, 0.5)};
  MergeArguments ours = {.subset = subset,
                         .mean = at::randn({subset.count()}, type),
                         .weights = at::randn({parameters}, type)};
  if (*rc::gen::arbitrary<bool>()) ours.sent = at::randn({subset.count()}, type);
  MergeBuffers our_buffers = make_merge_buffers(options, at::randn({parameters}, type));
  if (options.has_ema()) our_buffers.ema.normal_();
  if (options.has_outer()) our_buffers.outer.normal_();

  MergeArguments theirs = ours;
  theirs.weights = ours.weights.clone();
  MergeBuffers their_buffers = our_buffers;
  for (at::Tensor* buffer : {&their_buffers.ema, &their_buffers.anchor, &their_buffers.outer}) {
    if (buffer->defined()) *buffer = buffer->clone();
  }
  const MergeSums norms = merge(options, ours, our_buffers);
  const MergeSums expected = reference_merge(options, theirs, their_buffers);
  const double tolerance = type == at::kDouble ? 1e-13 : 1e-5;
  const auto same = [&](const at::Tensor& left, const at::Tensor& right) {
    return !left.defined() || at::allclose(left, right, tolerance, tolerance);
  };
  RC_ASSERT(same(ours.weights, theirs.weights));
  RC_ASSERT(same(our_buffers.ema, their_buffers.ema));
  RC_ASSERT(same(our_buffers.anchor, their_buffers.anchor));
  RC_ASSERT(same(our_buffers.outer, their_buffers.outer));
  RC_ASSERT(norms.count == expected.count);
  RC_ASSERT(std::abs(norms.drift() - expected.drift()) <= tolerance * (1 + expected.drift()));
  RC_ASSERT(std::abs(norms.correction() - expected.correction()) <=
            tolerance * (1 + expected.correction()));
}

// An outer rule that is on, but does what the plain one does.
RC_GTEST_PROP(Merge, OuterRateOneWithoutMomentumIsThePlainRule, ()) {
  seed_torch();
  const MergeOptions plain = {.correction = any_correction()};
  RC_ASSERT(!plain.has_outer());
  MergeOptions outer = plain;
  outer.outer_momentum = 1e-300;  // on, but lost in every sum
  const Subset subset = whole(50);
  const at::Tensor start = at::randn({50}, at::kDouble);
  const at::Tensor left = start.clone();
  const at::Tensor right = start.clone();
  MergeBuffers left_buffers = make_merge_buffers(plain, left);
  MergeBuffers right_buffers = make_merge_buffers(outer, right);
  for (int64_t round = 0; round < 5; ++round) {
    MergeArguments arguments = {.subset = subset,
                                .round = round,
                                .mean = at::randn({50}, at::kDouble),
                                .sent = at::randn({50}, at::kDouble),
                                .weights = left};
    merge(plain, arguments, left_buffers);
    arguments.weights = right;
    merge(outer, arguments, right_buffers);
    RC_ASSERT(at::allclose(left, right, 1e-13, 1e-13));
  }
}

RC_GTEST_PROP(Merge, DeltaKeepsTheMeanOfTheReplicas, ()) {
  seed_torch();
  int64_t parameters = 0;
  const Subset subset = any_subset(&parameters);
  const int replicas = *rc::gen::inRange(1, 9);
  std::vector<at::Tensor> weights, sent;
  for (int r = 0; r < replicas; ++r) {
    weights.push_back(at::randn({parameters}, at::kDouble));
    sent.push_back(gather(subset, weights.back()));
    weights.back().add_(at::randn({parameters}, at::kDouble));  // own steps since
  }
  const at::Tensor before = mean_of(weights);
  const at::Tensor mean = mean_of(sent);
  for (size_t r = 0; r < weights.size(); ++r) {
    MergeBuffers none;
    merge({.correction = Correction::kDelta},
          {.subset = subset, .mean = mean, .sent = sent[r], .weights = weights[r]}, none);
  }
  RC_ASSERT(at::allclose(mean_of(weights), before, 0, 1e-13));
}

// How many steps of a constant drift each merge of a coordinate loses, `lag` steps after sending.
std::vector<double> lost_steps(Correction correction, int64_t lag, int64_t merges) {
  const int64_t replicas = *rc::gen::inRange<int64_t>(1, 5);
  const Subset subset = whole(3);
  const MergeOptions options = {.correction = correction};
  const at::Tensor step = at::tensor({0.5, -2.0, 1.0}, at::kDouble);  // exact in binary
  std::vector<at::Tensor> weights;
  std::vector<MergeBuffers> buffers;
  for (int64_t r = 0; r < replicas; ++r) {
    weights.push_back(at::zeros({3}, at::kDouble));
    buffers.push_back(make_merge_buffers(options, weights.back()));
  }
  std::vector<double> lost;
  for (int64_t round = 0; round < merges; ++round) {
    std::vector<at::Tensor> sent;
    for (const at::Tensor& own : weights) sent.push_back(own.clone());
    const at::Tensor mean = mean_of(sent);
    for (size_t r = 0; r < weights.size(); ++r) {
      for (int64_t i = 0; i < lag; ++i) weights[r].add_(step);
      const at::Tensor undisturbed = weights[r].clone();
      merge(
          options,
          {.subset = subset, .round = round, .mean = mean, .sent = sent[r], .weights = weights[r]},
          buffers[r]);
      const at::Tensor steps = (undisturbed - weights[r]) / step;
      if (r == 0) lost.push_back(steps[0].item<double>());
      RC_ASSERT(at::allclose(steps, at::full({3}, lost.back(), at::kDouble), 0, 1e-9));
    }
  }
  return lost;
}

RC_GTEST_PROP(Merge, UnderConstantDriftNoneLosesTheLagAndDeltaNothing, ()) {
  const int64_t lag = *rc::gen::inRange<int64_t>(1, 30);
  for (const double lost : lost_steps(Correction::kNone, lag, 6)) {
    RC_ASSERT(lost == static_cast<double>(lag));
  }
  for (const double lost : lost_steps(Correction::kDelta, lag, 6)) RC_ASSERT(lost == 0.0);
}

RC_GTEST_PROP(Merge, UnderConstantDriftTheLossOfEmaHalvesAtEachMerge, ()) {
  const int64_t lag = *rc::gen::inRange<int64_t>(1, 30);
  double expected = static_cast<double>(lag);
  for (const double lost : lost_steps(Correction::kEma, lag, 10)) {
    expected /= 2;
    RC_ASSERT(std::abs(lost - expected) < 1e-9);
  }
}

}  // namespace
}  // namespace leeway
