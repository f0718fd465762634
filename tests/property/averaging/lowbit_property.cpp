#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <utility>
#include <vector>

#include "../../support/reference_merge.h"
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
  LowbitBuffers buffers = make_lowbit_buffers(options, at::zeros_like(done));
  at::Tensor sent = at::zeros({chunk.count()}, at::kDouble);
  for (int round = 0; round < 4; ++round) {
    const at::Tensor own = contribute_steps(options, chunk, any_key(), done, buffers);
    RC_ASSERT(is_encoding(options.wire, own, chunk.count(), at::kDouble));
    sent += decode(options.wire, own, chunk.count(), at::kDouble);
    RC_ASSERT(at::allclose(gather(chunk, buffers.flight), sent, 0, 1e-15));
    RC_ASSERT(
        at::allclose(own_steps(options, chunk, done, buffers), gather(chunk, done), 0, 1e-15));
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
    const int members = *rc::gen::inRange(1, 5);
    means += mean_of(contributions) * (static_cast<double>(replicas) / members);
    const at::Tensor answer =
        reduce_steps(options, chunk, contributions, members, any_key(), buffers).answer;
    answers += decode(options.wire, answer, chunk.count(), at::kDouble);
    RC_ASSERT(at::allclose(answers + gather(chunk, buffers.residual), means, 0, 1e-15));
  }
}

RC_GTEST_PROP(Lowbit, TakingBackUndoesSending, ()) {
  const LowbitOptions options = {.wire = any_wire()};
  const Subset chunk = any_chunk();
  const at::Tensor done = any_steps();
  LowbitBuffers buffers = make_lowbit_buffers(options, at::zeros_like(done));
  const at::Tensor own = contribute_steps(options, chunk, any_key(), done, buffers);
  take_back_steps(chunk, decode(options.wire, own, chunk.count(), at::kDouble), buffers);
  RC_ASSERT(at::allclose(buffers.flight, at::zeros_like(done), 0, 1e-16));
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
      steps.push_back(any_steps());
      weights[r].add_(steps.back());
      sent.push_back(contribute_steps(options, everything, any_key(), weights[r], buffers[r]));
    }
    expected += mean_of(steps);
    const at::Tensor answer = reduce_steps(options, everything, sent,
                                           static_cast<int64_t>(replicas), any_key(), buffers[0])
                                  .answer;
    for (size_t r = 0; r < replicas; ++r) {
      merge_steps(options,
                  {.subset = everything, .answer = answer, .own = sent[r], .weights = weights[r]},
                  buffers[r]);
      RC_ASSERT(at::allclose(weights[r], expected, 0, 1e-13));
    }
  }
}

// Which of a replica's contributions the next answer has in it. Others stay under way, or are lost
// and will be sent again.
std::vector<at::Tensor> any_answered(std::vector<at::Tensor>& under_way, bool counts,
                                     LowbitBuffers& buffers) {
  const Subset everything = Cut({.seed = 0, .parameters = kParameters}).subset(0);
  std::vector<at::Tensor> answered;
  for (const at::Tensor& sent : std::exchange(under_way, {})) {
    const int fate = *rc::gen::inRange(0, 3);
    if (fate == 0) answered.push_back(sent);
    if (fate == 1 && counts) take_back_steps(everything, sent, buffers);
    if (fate == 2) under_way.push_back(sent);
  }
  return answered;
}

// Replicas that take turns, are late, or whose contributions are lost: X is x0 plus the mean of all
// steps, but for what p and the residual hold.
RC_GTEST_PROP(Lowbit, NothingIsLostAndNothingCountsTwice, ()) {
  const LowbitOptions options = {.wire = any_wire(), .smoothing = *rc::gen::element(0.0, 0.9)};
  const size_t members = *rc::gen::inRange<size_t>(1, 5);
  const Subset everything = Cut({.seed = 0, .parameters = kParameters}).subset(0);
  const at::Tensor start = any_steps() * 100;
  at::Tensor all_steps = at::zeros_like(start);
  std::vector<at::Tensor> weights(members);
  std::vector<LowbitBuffers> buffers(members);
  for (size_t r = 0; r < members; ++r) {
    weights[r] = start.clone();
    buffers[r] = make_lowbit_buffers(options, start);
  }
  std::vector<std::vector<at::Tensor>> flights(members);
  std::vector<bool> counts(members);
  for (size_t r = 0; r < members; ++r) counts[r] = *rc::gen::arbitrary<bool>();
  const auto decoded = [&](const at::Tensor& encoded) {
    return decode(options.wire, encoded, kParameters, at::kDouble);
  };
  const int answers = *rc::gen::inRange(1, 8);
  for (int number = 0; number < answers; ++number) {
    for (size_t r = 0; r < members; ++r) {
      for (int n = *rc::gen::inRange(0, 3); n > 0; --n) {
        const at::Tensor step = any_steps();
        weights[r] += step;
        all_steps += step;
        const at::Tensor sent =
            counts[r] ? contribute_steps(options, everything, any_key(), weights[r], buffers[r])
                      : contribute_uncounted(options, everything, any_key(), weights[r], buffers[r],
                                             flights[r]);
        flights[r].push_back(decoded(sent));
      }
    }
    std::vector<at::Tensor> came;
    std::vector<at::Tensor> in(members);
    for (size_t r = 0; r < members; ++r) {
      for (const at::Tensor& sent : any_answered(flights[r], counts[r], buffers[r])) {
        came.push_back(sent);
        in[r] = in[r].defined() ? in[r] + sent : sent;
      }
    }
    if (came.empty()) continue;
    const at::Tensor answer =
        decoded(reduce_steps(options, everything, came, static_cast<int64_t>(members), any_key(),
                             buffers[0])
                    .answer);
    for (size_t r = 0; r < members; ++r) {
      merge_steps(options,
                  {.subset = everything,
                   .answer = answer,
                   .own = in[r],
                   .counted = counts[r],
                   .weights = weights[r]},
                  buffers[r]);
      RC_ASSERT(at::equal(buffers[r].common, buffers[0].common));
    }
    at::Tensor held = buffers[0].residual * static_cast<double>(members);
    for (size_t r = 0; r < members; ++r) {
      held = held + own_steps(options, everything, weights[r], buffers[r]);
    }
    const at::Tensor expected = start + (all_steps - held) / static_cast<double>(members);
    RC_ASSERT(at::allclose(buffers[0].common, expected, 0, 1e-10));
  }
}

RC_GTEST_PROP(Lowbit, MergeEqualsTheReference, ()) {
  const LowbitOptions options = {.smoothing = *rc::gen::element(0.0, 0.9),
                                 .gain = *rc::gen::element(0.0, 1.0),
                                 .gain_smoothing = 0.8};
  const Subset chunk = any_chunk();
  LowbitMergeArguments ours = {.subset = chunk,
                               .answer = gather(chunk, any_steps()),
                               .own = gather(chunk, any_steps()),
                               .weights = any_steps()};
  if (*rc::gen::arbitrary<bool>()) ours.own = at::Tensor();
  LowbitBuffers our_buffers = make_lowbit_buffers(options, any_steps());
  if (our_buffers.pending.defined()) our_buffers.pending.copy_(any_steps());
  if (our_buffers.momentum.defined()) our_buffers.momentum.copy_(any_steps());
  LowbitMergeArguments theirs = ours;
  theirs.weights = ours.weights.clone();
  LowbitBuffers their_buffers = our_buffers;
  their_buffers.common = our_buffers.common.clone();
  their_buffers.flight = our_buffers.flight.clone();
  if (options.smoothing != 0) their_buffers.pending = our_buffers.pending.clone();
  if (options.gain != 0) their_buffers.momentum = our_buffers.momentum.clone();

  const MergeSums norms = merge_steps(options, ours, our_buffers);
  const MergeSums expected = reference_merge_steps(options, theirs, their_buffers);
  const auto same = [](const at::Tensor& left, const at::Tensor& right) {
    return !left.defined() || at::allclose(left, right, 1e-13, 1e-15);
  };
  RC_ASSERT(same(ours.weights, theirs.weights));
  RC_ASSERT(same(our_buffers.flight, their_buffers.flight));
  RC_ASSERT(same(our_buffers.pending, their_buffers.pending));
  // All that makes the common model has the same bits.
  RC_ASSERT(at::equal(our_buffers.common, their_buffers.common));
  if (options.gain != 0) RC_ASSERT(at::equal(our_buffers.momentum, their_buffers.momentum));
  RC_ASSERT(std::abs(norms.drift() - expected.drift()) <= 1e-12);
  RC_ASSERT(std::abs(norms.correction() - expected.correction()) <= 1e-12);
}

}  // namespace
}  // namespace leeway
