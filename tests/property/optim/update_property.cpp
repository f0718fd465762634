#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../../support/reference_update.h"
#include "kernels/clip.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

ParameterLayout any_layout() {
  ParameterLayout layout;
  int64_t offset = 0;
  const int count = *rc::gen::inRange(1, 9);
  for (int i = 0; i < count; ++i) {
    Parameter parameter;
    parameter.name = std::to_string(i);
    parameter.kind = *rc::gen::element(ParameterKind::kMatrix, ParameterKind::kEmbedding,
                                       ParameterKind::kHead, ParameterKind::kVector);
    parameter.offset = offset;
    const bool vector = parameter.kind == ParameterKind::kVector;
    parameter.rows = vector ? 1 : *rc::gen::inRange<int64_t>(1, 90);
    parameter.cols = *rc::gen::inRange<int64_t>(1, 90);
    offset += parameter.count();
    layout.push_back(parameter);
  }
  return layout;
}

// Random values from the case's own seed: a failure can be run again.
at::Tensor any_numbers(int64_t count) {
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  return at::randn({count}, at::kDouble);
}

std::vector<Span> spans_of(const ParameterLayout& layout) {
  std::vector<Span> spans;
  for (const Parameter& p : layout) {
    spans.push_back({p.offset, p.count(), p.kind != ParameterKind::kVector});
  }
  return spans;
}

RC_GTEST_PROP(Update, ElementPassEqualsItsFormulas, ()) {
  const ParameterLayout layout = any_layout();
  const int64_t count = parameter_count(layout);
  const bool adam = *rc::gen::arbitrary<bool>();
  const PassTensors ours = {any_numbers(count), any_numbers(count), any_numbers(count),
                            adam ? any_numbers(count).abs() : at::Tensor(), at::Tensor()};
  const PassTensors theirs = {ours.weights.clone(), ours.gradients, ours.momentum.clone(),
                              adam ? ours.variance.clone() : at::Tensor(), at::Tensor()};
  const StepConstants constants = {.gradient_scale = 0.3,
                                   .momentum_share = 0.1,
                                   .variance_keep = 0.99,
                                   .weight_keep = 0.9,
                                   .gradient_part = *rc::gen::element(0.0, 0.01),
                                   .momentum_part = 0.02,
                                   .root_scale = 2.0,
                                   .epsilon = 1e-6};
  element_pass(UpdatePieces(spans_of(layout), at::kCPU), constants, ours);
  reference_element_pass(spans_of(layout), constants, theirs);
  RC_ASSERT(at::allclose(ours.weights, theirs.weights, 1e-10, 1e-13));
  RC_ASSERT(at::allclose(ours.momentum, theirs.momentum, 1e-10, 1e-13));
  if (adam) RC_ASSERT(at::allclose(ours.variance, theirs.variance, 1e-10, 1e-13));
}

RC_GTEST_PROP(Update, EveryRuleMovesEveryElementAgainstItsFirstGradient, ()) {
  // True for each rule at its first update, except for Muon's matrices, which rotate their
  // gradient.
  ParameterLayout layout = any_layout();
  for (Parameter& p : layout) {
    if (p.kind == ParameterKind::kMatrix) p.kind = ParameterKind::kHead;
  }
  const int64_t count = parameter_count(layout);
  const auto rule = *rc::gen::element(UpdateRule::kMuon, UpdateRule::kAdamW, UpdateRule::kNAdamW,
                                      UpdateRule::kSgd);
  Optimizer optimizer({.rule = rule}, layout, at::kDouble);
  const at::Tensor start = any_numbers(count);
  const at::Tensor gradients = any_numbers(count);
  const at::Tensor weights = start.clone();
  optimizer.update({weights, gradients, {}});
  RC_ASSERT(at::all((weights - start) * gradients < 0).item<bool>());
}

RC_GTEST_PROP(Update, MuonsStepIsDownhillForEveryLayout, ()) {
  // The inner product of each matrix's step and its gradient has the sign that makes it downhill.
  const ParameterLayout layout = any_layout();
  const int64_t count = parameter_count(layout);
  Optimizer optimizer({.rule = UpdateRule::kMuon}, layout, at::kDouble);
  const at::Tensor start = any_numbers(count);
  const at::Tensor gradients = any_numbers(count);
  const at::Tensor weights = start.clone();
  optimizer.update({weights, gradients, {}});
  for (const Parameter& p : layout) {
    const at::Tensor moved = (weights - start).narrow(0, p.offset, p.count());
    RC_ASSERT(at::dot(moved, gradients.narrow(0, p.offset, p.count())).item<double>() < 0);
  }
}

RC_GTEST_PROP(Clip, NormAfterClippingIsAtMostTheClip, ()) {
  const at::Tensor gradients = any_numbers(*rc::gen::inRange<int64_t>(1, 5000));
  const double clip = *rc::gen::inRange(1, 2000) / 100.0;
  const double norm = gradients.to(at::kDouble).norm().item<double>();
  RC_ASSERT(std::abs(norm - gradients.norm().item<double>()) < 1e-9 * (1 + norm));
  const double clipped = norm * clip_scale(norm * norm, clip);
  RC_ASSERT(clipped <= clip * (1 + 1e-12));
  RC_ASSERT(clipped >= std::min(norm, clip) - 1e-5);
}

}  // namespace
}  // namespace leeway
