#include "pipeline/stage.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/rng.h"

namespace leeway {
namespace {

class Machine : public testing::Environment {
 public:
  void SetUp() override {
    at::set_num_threads(1);  // these tensors are tiny: a second thread only waits
    // Some CPUs advertise matrix units that may not be used; oneDNN then crashes on bf16 products.
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*replace=*/0);
  }
};
[[maybe_unused]] const testing::Environment* const kMachine =
    testing::AddGlobalTestEnvironment(new Machine);

ModelShape tiny() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 2,
          .width = 12,
          .heads = 2,
          .kv_heads = 1,
          .hidden = 9,
          .context = 7,
          .vocabulary = 23};
}

StageOptions options_of(const StageSlice& slice) {
  StageOptions options;
  options.shape = tiny();
  options.slice = slice;
  options.update.rule = UpdateRule::kAdamW;
  options.update.rate = 0.05;
  options.seed = 3;
  return options;
}

at::Tensor tokens(uint64_t name) {
  const at::Tensor ids = at::empty({2, 7}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    ids.view(-1)[i] = static_cast<int64_t>(
        random_bits({1, Stream::kSampler, name}, static_cast<uint64_t>(i)) % 23);
  }
  return ids;
}

// The gradient that `weights` give for one microbatch, computed from scratch.
at::Tensor recomputed(const at::Tensor& weights, uint64_t batch, double scale) {
  Stage stage(options_of(whole_model(tiny())));
  stage.load_weights(weights);
  stage.forward_to_head({0}, {}, tokens(batch), tokens(batch + 100), scale);
  stage.backward_from_loss({0});
  return stage.gradients().clone();
}

class WholeStage : public testing::Test {
 protected:
  void forward(int64_t m, double scale = 1) {
    const auto batch = static_cast<uint64_t>(m);
    stage.forward_to_head({m}, {}, tokens(batch), tokens(batch + 100), scale);
  }
  at::Tensor evaluate(uint64_t batch) {
    return stage.evaluate_loss(*stage.hold_copy(stage.weights()), tokens(batch), tokens(100));
  }
  Stage stage{options_of(whole_model(tiny()))};
};

TEST_F(WholeStage, BackwardUsesTheWeightsOfItsForward) {
  const at::Tensor old_weights = stage.weights().clone();
  forward(0);
  forward(1);
  stage.backward_from_loss({0});
  stage.update(1.0, 1.0);
  const at::Tensor new_weights = stage.weights().clone();
  ASSERT_FALSE(at::equal(old_weights, new_weights));
  forward(2);
  stage.backward_from_loss({1});  // went forward before the update
  EXPECT_TRUE(at::equal(stage.gradients(), recomputed(old_weights, 1, 1.0)));
  stage.update(1.0, 1.0);
  stage.backward_from_loss({2});  // between the updates
  EXPECT_TRUE(at::equal(stage.gradients(), recomputed(new_weights, 2, 1.0)));
  EXPECT_FALSE(at::equal(stage.gradients(), recomputed(old_weights, 2, 1.0)));
}

// As a merge does inside an update.
TEST_F(WholeStage, WeightsWrittenBetweenMicrobatchesReachTheNextForwardAndNoneBefore) {
  const at::Tensor old_weights = stage.weights().clone();
  forward(0);
  forward(1);
  stage.backward_from_loss({0});
  stage.make_guess(1, 1.0, 1.0);
  stage.forward_to_head({2}, {.delay = 1, .guess = 1}, tokens(2), tokens(102));
  EXPECT_FALSE(stage.writable_copy().defined()) << "forwards have used it";
  EXPECT_FALSE(stage.has_guess(1)) << "it was made from other weights";
  stage.weights().mul_(0.5);
  const at::Tensor new_weights = stage.weights().clone();
  forward(3);
  forward(4);
  const at::Tensor before = stage.gradients().clone();
  stage.backward_from_loss({1});
  const auto is_near = [&](const at::Tensor& expected) {  // sums in another order
    return at::allclose(stage.gradients(), expected, /*rtol=*/1e-5, /*atol=*/1e-7);
  };
  EXPECT_TRUE(is_near(before + recomputed(old_weights, 1, 1.0)));
  EXPECT_FALSE(is_near(before + recomputed(new_weights, 1, 1.0)));
  stage.backward_from_loss({2});
  const at::Tensor so_far = stage.gradients().clone();
  stage.backward_from_loss({3});
  EXPECT_TRUE(is_near(so_far + recomputed(new_weights, 3, 1.0)));
  EXPECT_FALSE(is_near(so_far + recomputed(old_weights, 3, 1.0)));
}

// Nobody has used the newest version: whoever writes the weights keeps it up to date.
TEST_F(WholeStage, ACopyThatNoForwardHasUsedIsWritten) {
  forward(0);
  stage.backward_from_loss({0});
  stage.update(1.0, 1.0);
  const at::Tensor copy = stage.writable_copy();
  ASSERT_TRUE(copy.defined());
  EXPECT_TRUE(at::equal(copy, stage.weights()));
  copy.mul_(0.5);
  stage.weights().mul_(0.5);
  forward(1);
  stage.backward_from_loss({1});
  EXPECT_TRUE(at::equal(stage.gradients(), recomputed(stage.weights(), 1, 1.0)));
}

TEST_F(WholeStage, CountsWhatIsInFlight) {
  EXPECT_EQ(stage.in_flight_count(), 0);
  forward(0);
  forward(1);
  EXPECT_EQ(stage.in_flight_count(), 2);
  stage.backward_from_loss({0});
  EXPECT_EQ(stage.in_flight_count(), 1);
  evaluate(5);
  EXPECT_EQ(stage.in_flight_count(), 1);
  stage.backward_from_loss({1});
  EXPECT_EQ(stage.in_flight_count(), 0);
}

TEST_F(WholeStage, KeepsOneCopyIfNothingIsInFlightAndOneMorePerVersionInUse) {
  for (int64_t m = 0; m < 4; ++m) {
    forward(m);
    stage.backward_from_loss({m});
    stage.update(1.0, 1.0);
  }
  EXPECT_EQ(stage.version_count(), 1);
  forward(4);
  forward(5);  // the same version: no copy of its own
  stage.update(1.0, 1.0);
  EXPECT_EQ(stage.version_count(), 2);
  forward(6);
  stage.update(1.0, 1.0);
  EXPECT_EQ(stage.version_count(), 3);
  for (const int64_t m : {4, 5, 6}) stage.backward_from_loss({m});
  stage.update(1.0, 1.0);
  EXPECT_EQ(stage.version_count(), 3);  // kept for the next time
}

TEST_F(WholeStage, UpdateClearsTheGradientsAndCounts) {
  forward(0);
  stage.backward_from_loss({0});
  EXPECT_GT(stage.gradients().abs().max().item<double>(), 0);
  EXPECT_EQ(stage.updates_done(), UpdateId{0});
  stage.update(1.0, 1.0);
  EXPECT_EQ(stage.gradients().abs().max().item<double>(), 0);
  EXPECT_EQ(stage.updates_done(), UpdateId{1});
}

TEST_F(WholeStage, MicrobatchesOfAnUpdateAddUp) {
  const at::Tensor weights = stage.weights().clone();
  for (const int64_t m : {0, 1}) {
    forward(m, 0.5);
    stage.backward_from_loss({m});
  }
  const at::Tensor expected = recomputed(weights, 0, 0.5) + recomputed(weights, 1, 0.5);
  EXPECT_TRUE(at::allclose(stage.gradients(), expected, 1e-5, 1e-7));
}

TEST_F(WholeStage, SmallStepsLowerTheLoss) {
  std::vector<double> losses;
  for (int64_t m = 0; m < 7; ++m) {
    stage.forward_to_head({m}, {}, tokens(0), tokens(100));
    losses.push_back(stage.backward_from_loss({m}).loss.item<double>());
    stage.update(1.0, 1.0);
  }
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

TEST_F(WholeStage, EvaluatesTheNewestWeights) {
  const at::Tensor before = evaluate(1);
  EXPECT_TRUE(at::equal(before, evaluate(1)));
  forward(0);
  stage.backward_from_loss({0});
  stage.update(1.0, 1.0);
  const at::Tensor after = evaluate(1);
  EXPECT_FALSE(at::equal(before, after));
  Stage fresh(options_of(whole_model(tiny())));
  fresh.load_weights(stage.weights());
  EXPECT_TRUE(at::equal(
      after, fresh.evaluate_loss(*fresh.hold_copy(fresh.weights()), tokens(1), tokens(100))));
}

TEST_F(WholeStage, MisuseIsOurBug) {
  EXPECT_DEATH(stage.backward_from_loss({0}), "backward without its forward");
  forward(0);
  EXPECT_DEATH(forward(0), "forward once");
  EXPECT_DEATH(stage.load_weights(stage.weights()), "nothing is in flight");
}

TEST(Stage, CutsComputeWhatTheWholeComputes) {
  Stage whole(options_of(whole_model(tiny())));
  const std::vector<StageSlice> slices = cut_into_stages(tiny(), 2);
  Stage first(options_of(slices[0])), last(options_of(slices[1]));
  const auto step = [&](int64_t m) {
    const at::Tensor ids = tokens(static_cast<uint64_t>(m));
    whole.forward_to_head({m}, {}, ids, tokens(200));
    last.forward_to_head({m}, {}, first.forward({m}, {}, ids), tokens(200));
    const MicrobatchGradient cut = last.backward_from_loss({m});
    EXPECT_TRUE(at::equal(cut.loss, whole.backward_from_loss({m}).loss));
    EXPECT_FALSE(first.backward({m}, cut.dx).defined());
    for (Stage* stage : {&whole, &first, &last}) stage->update(1.0, 1.0);
  };
  for (int64_t m = 0; m < 3; ++m) step(m);
  EXPECT_TRUE(at::equal(at::cat({first.weights(), last.weights()}), whole.weights()));
}

TEST(Stage, ComputesInBf16FromFp32Weights) {
  StageOptions options = options_of(whole_model(tiny()));
  options.compute = at::kBFloat16;
  Stage stage(options);
  stage.forward_to_head({0}, {}, tokens(1), tokens(2));
  const at::Tensor loss = stage.backward_from_loss({0}).loss;
  stage.update(1.0, 1.0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_EQ(stage.weights().scalar_type(), at::kFloat);
  EXPECT_EQ(stage.gradients().scalar_type(), at::kFloat);
  EXPECT_EQ(stage.evaluate(*stage.hold_copy(stage.weights()), tokens(1)).scalar_type(),
            at::kBFloat16);
}

}  // namespace
}  // namespace leeway
