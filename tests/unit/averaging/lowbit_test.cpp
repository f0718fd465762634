#include "averaging/lowbit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "../../support/subsets.h"
#include "averaging/wire.h"
#include "base/hash.h"
#include "base/rng.h"

namespace leeway {
namespace {

at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

TEST(LowbitBuffers, AreThoseThatTheOptionsNeed) {
  const at::Tensor weights = at::randn({4});
  const LowbitBuffers plain = make_lowbit_buffers({}, weights);
  EXPECT_FALSE(plain.pending.defined() || plain.momentum.defined());
  EXPECT_TRUE(at::equal(plain.common, weights)) << "all replicas begin there";
  EXPECT_TRUE(plain.flight.defined() && plain.residual.defined());
  const LowbitBuffers all = make_lowbit_buffers({.smoothing = 0.9, .gain = 1}, weights);
  EXPECT_TRUE(all.pending.defined() && all.momentum.defined());
}

TEST(OwnSteps, AreWhatTheWeightsAreBeyondTheCommonModel) {
  const LowbitOptions options = {.smoothing = 0.5};
  const at::Tensor weights = number(10);
  LowbitBuffers buffers = make_lowbit_buffers(options, weights);
  weights.add_(3);
  buffers.pending.fill_(4);
  EXPECT_EQ(own_steps(options, whole(1), weights, buffers).item<double>(), 5.0);
}

// What is under way is not sent again, and what the code drops is sent later.
TEST(ContributeSteps, SendsWhatIsNotUnderWay) {
  const LowbitOptions options = {.wire = WireFormat::kF32};
  const at::Tensor weights = number(0);
  LowbitBuffers buffers = make_lowbit_buffers(options, weights);
  const auto send = [&] {
    return contribute_steps(options, whole(1), {}, weights, buffers).item<double>();
  };
  weights.add_(3);
  EXPECT_EQ(send(), 3.0);
  weights.add_(2);
  EXPECT_EQ(send(), 2.0);
  EXPECT_EQ(send(), 0.0);
  take_back_steps(whole(1), number(3), buffers);
  EXPECT_EQ(send(), 3.0) << "it was lost";
}

// Counted late or not at all, it is the same as counted at once.
TEST(ContributeSteps, AFewNeedNotBeCounted) {
  const LowbitOptions options;
  constexpr int64_t kCount = 1101;
  const at::Tensor start = at::randn({kCount});
  const at::Tensor weights = start + at::randn({kCount}) * 0.01;
  const auto decoded = [&](const at::Tensor& code) {
    return decode(options.wire, code, kCount, at::kFloat);
  };
  LowbitBuffers counted = make_lowbit_buffers(options, start);
  LowbitBuffers late = make_lowbit_buffers(options, start);
  std::vector<at::Tensor> sent;
  for (int n = 0; n < 3; ++n) {
    const at::Tensor code = contribute_uncounted(options, whole(kCount), {}, weights, late, sent);
    if (n < 2) {  // beyond that sums may round
      const at::Tensor same = contribute_steps(options, whole(kCount), {}, weights, counted);
      EXPECT_TRUE(at::equal(code, same)) << n;
    }
    sent.push_back(code);
  }
  EXPECT_FALSE(at::equal(sent[0], sent[1])) << "what is under way is not sent again";
  EXPECT_FALSE(at::equal(sent[1], sent[2]));
  EXPECT_EQ(late.flight.count_nonzero().item<int64_t>(), 0);
  EXPECT_GT(counted.flight.count_nonzero().item<int64_t>(), 0);

  const auto merged = [&](LowbitBuffers& buffers, bool is_counted) {
    at::Tensor after = weights.clone();
    merge_steps(options,
                {.subset = whole(kCount),
                 .answer = decoded(sent[0]) * 0.5,
                 .own = sent[0],
                 .counted = is_counted,
                 .weights = after},
                buffers);
    return after;
  };
  LowbitBuffers answered = make_lowbit_buffers(options, start);
  const at::Tensor without = merged(answered, false);
  EXPECT_EQ(answered.flight.count_nonzero().item<int64_t>(), 0);

  for (int n = 0; n < 2; ++n) count_steps(whole(kCount), decoded(sent[n]), late);
  EXPECT_TRUE(at::equal(late.flight, counted.flight));
  EXPECT_TRUE(at::equal(merged(late, true), without));
  EXPECT_TRUE(at::equal(late.common, answered.common));
  EXPECT_TRUE(at::allclose(late.flight, decoded(sent[1]), 0, 1e-8));
}

// Replicas that are there but have sent nothing count: those that alternate do not count twice.
TEST(ReduceSteps, DividesByTheMembers) {
  const LowbitOptions options = {.wire = WireFormat::kF32};
  LowbitBuffers buffers = make_lowbit_buffers(options, number(0));
  const auto answer = [&](const std::vector<at::Tensor>& parts, int64_t members) {
    return reduce_steps(options, whole(1), parts, members, {}, buffers).answer.item<double>();
  };
  EXPECT_EQ(answer({number(8)}, 4), 2.0);
  EXPECT_EQ(answer({number(8), number(4)}, 4), 3.0);
  EXPECT_EQ(answer({number(8), number(8), number(8)}, 2), 12.0) << "two are of one replica";
}

TEST(MergeSteps, EqualsTheEquations) {
  const LowbitOptions options = {
      .wire = WireFormat::kF32, .smoothing = 0.75, .gain = 0.5, .gain_smoothing = 0.25};
  const at::Tensor weights = number(10);
  LowbitBuffers buffers = make_lowbit_buffers(options, weights);
  double x = 10, p = 0, s = 0, ub = 0, f = 0;
  for (int round = 0; round < 8; ++round) {
    weights.add_(0.125 * round);  // a step
    p += 0.125 * round;
    const double answer = 1 + round % 3;
    const double sent = round % 4 != 3 ? 0.5 * round : 0;
    buffers.flight.add_(sent);
    f += sent;
    ub = 0.25 * ub + 0.75 * answer;
    x += answer + 0.5 * ub;
    p -= sent;
    f -= sent;
    s = 0.75 * s + answer - sent;
    const double old = weights.item<double>();
    const MergeSums norms = merge_steps(options,
                                        {.subset = whole(1),
                                         .answer = number(answer),
                                         .own = sent == 0 ? at::Tensor() : number(sent),
                                         .weights = weights},
                                        buffers);
    const double w = x + p - 0.75 * s;
    EXPECT_NEAR(weights.item<double>(), w, 1e-13);
    EXPECT_NEAR(buffers.common.item<double>(), x, 1e-13);
    EXPECT_NEAR(buffers.flight.item<double>(), f, 1e-13);
    EXPECT_NEAR(own_steps(options, whole(1), weights, buffers).item<double>(), p, 1e-13);
    EXPECT_NEAR(norms.correction(), (w - old) * (w - old), 1e-11);
    EXPECT_EQ(norms.drift(), sent * sent);
  }
}

// The common model is the same to the bit, whatever the replicas have done beyond it.
TEST(MergeSteps, TheCommonModelIsTheSameOnAll) {
  const LowbitOptions options = {.smoothing = 0.9, .gain = 1, .gain_smoothing = 0.9};
  const int64_t parameters = 5000;
  const at::Tensor start = at::randn({parameters});
  std::vector<at::Tensor> weights;
  std::vector<LowbitBuffers> buffers;
  for (int r = 0; r < 3; ++r) {
    weights.push_back(start.clone());
    buffers.push_back(make_lowbit_buffers(options, start));
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<at::Tensor> sent;
    for (size_t r = 0; r < 3; ++r) {
      weights[r].add_(at::randn({parameters}) * 0.01);
      const at::Tensor own =
          contribute_steps(options, whole(parameters), {}, weights[r], buffers[r]);
      sent.push_back(decode(options.wire, own, parameters, at::kFloat));
    }
    const at::Tensor answer =
        reduce_steps(options, whole(parameters), sent, 3, {}, buffers[0]).answer;
    for (size_t r = 0; r < 3; ++r) {
      merge_steps(options,
                  {.subset = whole(parameters),
                   .answer = decode(options.wire, answer, parameters, at::kFloat),
                   .own = sent[r],
                   .weights = weights[r]},
                  buffers[r]);
      ASSERT_TRUE(at::equal(buffers[r].common, buffers[0].common)) << round;
    }
  }
  EXPECT_FALSE(at::equal(weights[0], weights[1]));
}

// Each operation rounds once, in this order: no vector width, and no machine that could round two
// operations at once, gives other bits.
TEST(MergeSteps, GivesTheBitsOfPlainArithmetic) {
  const LowbitOptions options = {.smoothing = 0.95, .gain = 1.1, .gain_smoothing = 0.95};
  const int64_t parameters = 1003;
  const at::Tensor start = at::randn({parameters});
  const at::Tensor weights = start + at::randn({parameters}) * 0.01;
  LowbitBuffers buffers = make_lowbit_buffers(options, start);
  buffers.momentum.copy_(at::randn({parameters}) * 0.01);
  const at::Tensor answer = at::randn({parameters}) * 0.01;
  const at::Tensor before = buffers.momentum.clone();
  merge_steps(options, {.subset = whole(parameters), .answer = answer, .weights = weights},
              buffers);
  const auto kept = static_cast<float>(options.gain_smoothing);
  const auto fresh = static_cast<float>(1 - options.gain_smoothing);
  for (int64_t i = 0; i < parameters; ++i) {
    volatile float faded = before[i].item<float>() * kept;
    volatile float added = answer[i].item<float>() * fresh;
    volatile float momentum = faded + added;
    volatile float gained = momentum * static_cast<float>(options.gain);
    volatile float common = start[i].item<float>() + answer[i].item<float>();
    common = common + gained;
    ASSERT_EQ(buffers.common[i].item<float>(), common) << i;
    ASSERT_EQ(buffers.momentum[i].item<float>(), momentum) << i;
  }
}

// Three hundred answers, exact ones and ternary ones: a machine of any vector width gets this
// model, and so does a GPU (LEEWAY_TEST_DEVICE=cuda).
TEST(MergeSteps, TheSameAnswersMakeTheSameModelOnEveryMachine) {
  const LowbitOptions options = {.smoothing = 0.95, .gain = 1.1, .gain_smoothing = 0.95};
  const int64_t parameters = 2 * kTernaryBlock + 77;
  const char* const device = std::getenv("LEEWAY_TEST_DEVICE");
  uint64_t drawn = 0;
  const auto draw = [&](double scale) {
    return static_cast<float>(scale * (random_uniform({.seed = 5}, drawn++) - 0.5));
  };
  const auto values = [&](double scale) {
    const at::Tensor tensor = at::empty({parameters});
    for (int64_t i = 0; i < parameters; ++i) tensor.mutable_data_ptr<float>()[i] = draw(scale);
    return tensor.to(device == nullptr ? "cpu" : device);
  };
  const at::Tensor weights = values(1);
  LowbitBuffers buffers = make_lowbit_buffers(options, weights.clone());
  for (int answer = 0; answer < 300; ++answer) {
    const WireFormat wire = answer % 3 == 0 ? WireFormat::kF32 : WireFormat::kTernary;
    const at::Tensor encoded = encode(wire, values(1e-3), {});
    merge_steps(options,
                {.subset = whole(parameters),
                 .answer = decode(wire, encoded, parameters, at::kFloat),
                 .weights = weights},
                buffers);
  }
  const auto hash = [](const at::Tensor& on_device) {
    const at::Tensor tensor = on_device.cpu();
    return hash_bytes({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  };
  EXPECT_EQ(hash(buffers.common), 15463293870332996564U);
  EXPECT_EQ(hash(buffers.momentum), 1173764912493415330U);
}

TEST(MergeSteps, SameBitsForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const LowbitOptions options = {.smoothing = 0.9, .gain = 1, .gain_smoothing = 0.9};
  const int64_t parameters = 600'001;
  const Subset subset = Cut({.seed = 1, .parameters = parameters}).subset(0);
  const at::Tensor start = at::randn({parameters});
  const at::Tensor steps = at::randn({parameters}) * 0.01;
  const auto run = [&](int count, at::Tensor& weights, LowbitBuffers& buffers) {
    at::set_num_threads(count);
    weights = start + steps;
    buffers = make_lowbit_buffers(options, start);
    const at::Tensor own = contribute_steps(options, subset, {}, weights, buffers);
    const at::Tensor sent = decode(options.wire, own, parameters, at::kFloat);
    const at::Tensor answer = reduce_steps(options, subset, {sent, steps}, 2, {}, buffers).answer;
    return merge_steps(options,
                       {.subset = subset,
                        .answer = decode(options.wire, answer, parameters, at::kFloat),
                        .own = sent,
                        .weights = weights},
                       buffers);
  };
  at::Tensor alone, weights;
  LowbitBuffers alone_buffers, buffers;
  const MergeSums alone_norms = run(1, alone, alone_buffers);
  const MergeSums norms = run(2, weights, buffers);
  EXPECT_TRUE(at::equal(weights, alone));
  EXPECT_TRUE(at::equal(buffers.common, alone_buffers.common));
  EXPECT_TRUE(at::equal(buffers.flight, alone_buffers.flight));
  EXPECT_TRUE(at::equal(buffers.residual, alone_buffers.residual));
  EXPECT_EQ(norms.drift(), alone_norms.drift());
  EXPECT_EQ(norms.correction(), alone_norms.correction());
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace leeway
