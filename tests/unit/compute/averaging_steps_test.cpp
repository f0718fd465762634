// Which own contributions to a common model are under way.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "../../support/model_shapes.h"
#include "averaging/wire.h"
#include "base/rng.h"
#include "compute/averaging_compute.h"

namespace leeway {
namespace {

constexpr Lane kLane = Lane::kMain;

struct Model {
  explicit Model(WireFormat wire) {
    stage.load_weights(at::zeros_like(stage.weights()));
    lane.payload = RoundPayload::kSteps;
    lane.cut = {.seed = 1, .parameters = stage.weights().numel()};
    lane.lowbit.wire = wire;
    compute = std::make_unique<AveragingCompute>(std::vector{lane}, ReplicaId{0}, stage);
  }
  at::Tensor contribute(int64_t number, bool exact = false) {
    return compute->contribute_steps(kLane, number, {true}, exact).front();
  }
  void merge(const at::Tensor& answer, const std::vector<int64_t>& in,
             const std::vector<int64_t>& lost = {}) {
    compute->merge_steps(kLane, 0, answer, in, lost);
  }
  at::Tensor flat(double value) const { return at::full_like(stage.weights(), value); }
  bool all_weights_are(double value) const { return at::equal(stage.weights(), flat(value)); }

  Stage stage{{.shape = small_llama(), .slice = whole_model(small_llama()), .update = {}}};
  LaneOptions lane;
  std::unique_ptr<AveragingCompute> compute;
};

// Whole numbers, so that nothing is rounded. Some are counted, and some are not.
TEST(OwnContributions, WhatIsUnderWayIsNotSentAgainAndWhatIsLostIs) {
  Model model(WireFormat::kF32);
  uint64_t draws = 0;
  const auto draw = [&](uint64_t below) {
    return random_bits({7, Stream::kSampler, 0}, draws++) % below;
  };
  std::map<int64_t, double> under_way;
  double own = 0, common = 0;
  size_t most = 0;
  for (int64_t number = 1; number <= 300; ++number) {
    const auto step = static_cast<double>(draw(9)) - 4;
    model.stage.weights().add_(step);
    own += step;
    const double sum =
        std::accumulate(under_way.begin(), under_way.end(), 0.0,
                        [](double so_far, auto& part) { return so_far + part.second; });
    ASSERT_TRUE(at::equal(model.contribute(number), model.flat(own - sum))) << number;
    under_way[number] = own - sum;
    most = std::max(most, under_way.size());

    // More come than are settled, and then the other way round.
    for (uint64_t n = draw(number % 40 < 20 ? 4 : 2) + under_way.size() / 8;
         n > 0 && !under_way.empty(); --n) {
      const auto part = std::next(under_way.begin(), static_cast<int64_t>(draw(under_way.size())));
      if (draw(4) == 0) {
        model.merge({}, {}, {part->first});
      } else {
        const auto answer = static_cast<double>(draw(7));
        model.merge(model.flat(answer), {part->first});
        own -= part->second;
        common += answer;
      }
      under_way.erase(part);
      ASSERT_TRUE(model.all_weights_are(common + own)) << number;
    }
  }
  EXPECT_GE(most, 6);
}

// For each number of contributions under way: none, some, and so many that they are counted.
class OwnContributionsUnderWay : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    for (int64_t number = 1; number <= GetParam(); ++number) {
      model.stage.weights().add_(static_cast<double>(number));
      sent += static_cast<double>(number);
      model.contribute(number);
    }
  }
  Model model{WireFormat::kF32};
  double sent = 0;
};

TEST_P(OwnContributionsUnderWay, AreThoseThatACheckpointSaves) {
  const std::vector<SentSteps> saved = model.compute->sent();
  ASSERT_EQ(std::ssize(saved), GetParam());
  for (const SentSteps& one : saved) {
    EXPECT_TRUE(at::equal(one.payload, model.flat(static_cast<double>(one.number))));
  }
}

TEST_P(OwnContributionsUnderWay, AreForgottenByOneThatComesAnew) {
  model.compute->restart();
  EXPECT_TRUE(model.all_weights_are(0)) << "the common model";
  model.stage.weights().add_(5);
  EXPECT_TRUE(at::equal(model.contribute(1), model.flat(5)));
  model.stage.weights().add_(2);
  EXPECT_TRUE(at::equal(model.contribute(2), model.flat(2)));
}

// The first one is in the chunk that another replica sends, the second was lost.
TEST_P(OwnContributionsUnderWay, StayWithAWholeChunk) {
  if (GetParam() < 2) return;
  model.compute->replace_common(kLane, 0, model.flat(100), {1}, {2});
  EXPECT_TRUE(model.all_weights_are(100 + sent - 1));
  EXPECT_TRUE(at::equal(model.contribute(99), model.flat(2))) << "what was lost";
}

INSTANTIATE_TEST_SUITE_P(Numbers, OwnContributionsUnderWay, testing::Values(0, 1, 2, 3, 4, 6));

// The last one of a run leaves nothing unsent, also beside codes that are under way.
TEST(OwnContributions, TheLastIsExact) {
  for (const int64_t before : {0, 1, 2, 5}) {
    Model model(WireFormat::kTernary);
    at::Tensor sum = model.flat(0);
    std::vector<int64_t> numbers;
    for (int64_t number = 1; number <= before + 1; ++number) {
      at::manual_seed(static_cast<uint64_t>(number));
      model.stage.weights().add_(at::randn_like(model.stage.weights()));
      const at::Tensor sent = model.contribute(number, /*exact=*/number > before);
      const at::Tensor code = unpack(WireFormat::kTernary, sent, sum.numel());
      sum += decode_steps(WireFormat::kTernary, code, sum.numel(), at::kFloat);
      numbers.push_back(number);
    }
    EXPECT_TRUE(at::allclose(sum, model.stage.weights(), 0, 1e-5)) << before;
    model.merge(sum, numbers);
    EXPECT_TRUE(at::allclose(model.compute->common_model(), model.stage.weights(), 0, 1e-5));
  }
}

}  // namespace
}  // namespace leeway
