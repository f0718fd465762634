#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "averaging/gather.h"
#include "averaging/lowbit.h"

namespace leeway {
namespace {

constexpr int64_t kParameters = 2300;

WireFormat any_wire() {
  return *rc::gen::element(WireFormat::kF32, WireFormat::kBf16, WireFormat::kInt8,
                           WireFormat::kInt8Stochastic, WireFormat::kTernary);
}

RandomKey any_key() { return {*rc::gen::arbitrary<uint64_t>(), Stream::kRounding, 0}; }

// A chunk of everything, or of a part.
Subset any_chunk() {
  const Cut cut({.seed = *rc::gen::arbitrary<uint64_t>(),
                 .parameters = kParameters,
                 .fraction = *rc::gen::element(1.0, 0.3),
                 .granularity = *rc::gen::element<int64_t>(1, 64)});
  const int64_t chunks = *rc::gen::inRange<int64_t>(1, 4);
  return cut.subset(*rc::gen::inRange<int64_t>(0, 9)).chunk(chunks - 1, chunks);
}

at::Tensor any_steps() {
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  return at::randn({kParameters}, at::kDouble) * 0.01;
}

RC_GTEST_PROP(Lowbit, SentPlusKeptEqualsTheSteps, ()) {
  const LowbitOptions options = {.wire = any_wire()};
  const Subset chunk = any_chunk();
  const at::Tensor done = any_steps();
  LowbitBuffers buffers = make_lowbit_buffers(options, done);
  add_steps(at::zeros_like(done), done, buffers);
  at::Tensor sent = at::zeros_like(done);
  for (int round = 0; round < 4; ++round) {
    const at::Tensor own = contribute_steps(options, chunk, any_key(), buffers);
    RC_ASSERT(is_encoding(options.wire, own, chunk.count(), at::kDouble));
    const at::Tensor said = decode(options.wire, own, chunk.count(), at::kDouble);
    scatter(chunk, gather(chunk, sent) + said, sent);
    RC_ASSERT(at::allclose(sent + buffers.unsent, done, 0, 1e-15));
  }
}

RC_GTEST_PROP(Lowbit, AnswersPlusResidualEqualTheSumOfTheMeans, ()) {
  const LowbitOptions options = {.wire = any_wire()};
  const Subset chunk = any_chunk();
  LowbitBuffers buffers = make_lowbit_buffers(options, any_steps());
  at::Tensor means = at::zeros({chunk.count()}, at::kDouble);
  at::Tensor answers = at::zeros({chunk.count()}, at::kDouble);
  for (int round = 0; round < 4; ++round) {
    std::vector<at::Tensor> contributions;
    const int replicas = *rc::gen::inRange(1, 5);
    for (int r = 0; r < replicas; ++r) contributions.push_back(gather(chunk, any_steps()));
    means += mean_of(contributions);
    const at::Tensor answer = reduce_steps(options, chunk, contributions, any_key(), buffers);
    answers += decode(options.wire, answer, chunk.count(), at::kDouble);
    RC_ASSERT(at::allclose(answers + gather(chunk, buffers.residual), means, 0, 1e-15));
  }
}

RC_GTEST_PROP(Lowbit, TakingBackUndoesSending, ()) {
  const LowbitOptions options = {.wire = any_wire()};
  const Subset chunk = any_chunk();
  const at::Tensor done = any_steps();
  LowbitBuffers buffers = make_lowbit_buffers(options, done);
  add_steps(at::zeros_like(done), done, buffers);
  const at::Tensor own = contribute_steps(options, chunk, any_key(), buffers);
  take_back_steps(chunk, decode(options.wire, own, chunk.count(), at::kDouble), buffers);
  RC_ASSERT(at::allclose(buffers.unsent, done, 0, 1e-16));
}

// Every replica ends where the mean of all steps would have taken it.
RC_GTEST_PROP(Lowbit, WithAnExactWireIsTheAverageOfTheSteps, ()) {
  const LowbitOptions options = {.wire = WireFormat::kF32};
  const size_t replicas = *rc::gen::inRange<size_t>(1, 5);
  const Subset everything = Cut({.seed = 0, .parameters = kParameters}).subset(0);
  const at::Tensor start = any_steps() * 100;
  const int rounds = *rc::gen::inRange(1, 4);
  std::vector<at::Tensor> weights;
  std::vector<LowbitBuffers> buffers;
  for (size_t r = 0; r < replicas; ++r) {
    weights.push_back(start.clone());
    buffers.push_back(make_lowbit_buffers(options, start));
  }
  at::Tensor expected = start.clone();
  for (int round = 0; round < rounds; ++round) {
    std::vector<at::Tensor> sent, steps;
    for (size_t r = 0; r < replicas; ++r) {
      const at::Tensor before = weights[r].clone();
      steps.push_back(any_steps());
      weights[r].add_(steps.back());
      add_steps(before, weights[r], buffers[r]);
      sent.push_back(contribute_steps(options, everything, any_key(), buffers[r]));
    }
    expected += mean_of(steps);
    const at::Tensor answer = reduce_steps(options, everything, sent, any_key(), buffers[0]);
    for (size_t r = 0; r < replicas; ++r) {
      merge_steps(options,
                  {.subset = everything, .answer = answer, .sent = sent[r], .weights = weights[r]},
                  buffers[r]);
      RC_ASSERT(at::allclose(weights[r], expected, 0, 1e-13));
    }
  }
}

RC_GTEST_PROP(Lowbit, MergeEqualsItsAtenForm, ()) {
  const LowbitOptions options = {.smoothing = *rc::gen::element(0.0, 0.9),
                                 .gain = *rc::gen::element(0.0, 1.0),
                                 .gain_smoothing = 0.8};
  const Subset chunk = any_chunk();
  LowbitMergeArguments ours = {.subset = chunk,
                               .answer = gather(chunk, any_steps()),
                               .sent = gather(chunk, any_steps()),
                               .contributed = *rc::gen::arbitrary<bool>(),
                               .weights = any_steps()};
  if (!ours.contributed) ours.sent = at::Tensor();
  LowbitBuffers our_buffers = make_lowbit_buffers(options, ours.weights);
  if (our_buffers.pending.defined()) our_buffers.pending.copy_(any_steps());
  if (our_buffers.momentum.defined()) our_buffers.momentum.copy_(any_steps());
  LowbitMergeArguments theirs = ours;
  theirs.weights = ours.weights.clone();
  LowbitBuffers their_buffers = our_buffers;
  if (options.smoothing != 0) their_buffers.pending = our_buffers.pending.clone();
  if (options.gain != 0) their_buffers.momentum = our_buffers.momentum.clone();

  const MergeNorms norms = merge_steps(options, ours, our_buffers);
  const MergeNorms expected = merge_steps_aten(options, theirs, their_buffers);
  const auto same = [](const at::Tensor& left, const at::Tensor& right) {
    return !left.defined() || at::allclose(left, right, 1e-13, 1e-15);
  };
  RC_ASSERT(same(ours.weights, theirs.weights));
  RC_ASSERT(same(our_buffers.pending, their_buffers.pending));
  RC_ASSERT(same(our_buffers.momentum, their_buffers.momentum));
  RC_ASSERT(std::abs(norms.drift - expected.drift) <= 1e-12);
  RC_ASSERT(std::abs(norms.correction - expected.correction) <= 1e-12);
}

}  // namespace
}  // namespace leeway
