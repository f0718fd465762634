#include "averaging/stability.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "../../support/reference_merge.h"
#include "averaging/subset.h"

namespace leeway {
namespace {

TEST(Stability, LimitsAreThoseOfTheDesign) {
  const auto limit = [](Correction correction, double m) {
    return stability_limit({.correction = correction, .ema_start = m});
  };
  EXPECT_EQ(limit(Correction::kDelta, 0.5), 1.0);
  EXPECT_EQ(limit(Correction::kEma, 0), 1.0);
  EXPECT_EQ(limit(Correction::kEma, 0.25), 1.75);
  EXPECT_EQ(limit(Correction::kEma, 0.5), 2.5);
  EXPECT_EQ(limit(Correction::kEma, 0.9), 2.5);
  EXPECT_FALSE(limit(Correction::kNone, 0.5));
}

TEST(Stability, TheStableIntervalIsTheSmallest) {
  for (const Correction correction : {Correction::kDelta, Correction::kEma}) {
    for (const double fraction : {0.05, 0.3, 1.0}) {
      for (int lag = 0; lag < 300; ++lag) {
        StabilityOptions options = {
            .lag = static_cast<double>(lag), .fraction = fraction, .correction = correction};
        options.interval = stable_interval(options);
        EXPECT_FALSE(stability_warning(options));
        if (options.interval == 1) continue;
        --options.interval;
        EXPECT_TRUE(stability_warning(options));
      }
    }
  }
  EXPECT_EQ(stable_interval({.lag = 500, .fraction = 1, .correction = Correction::kNone}), 1);
}

TEST(Stability, TheWarningHasTheFiguresAndWhatToChange) {
  using testing::HasSubstr;
  const StabilityOptions options = {
      .lag = 60, .fraction = 0.05, .interval = 1, .correction = Correction::kDelta};
  EXPECT_EQ(rounds_in_flight(options), 3.0);
  const std::string text = stability_warning(options).value();
  for (const char* part :
       {"lag of 60 updates", "averaging.fraction = 0.05", "averaging.interval = 1", "keep 3 rounds",
        "above 1 ", "\"delta\"", "averaging.interval = 3 or longer", "shorter lag"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_FALSE(stability_warning({.lag = 20, .fraction = 0.05, .correction = Correction::kDelta}));
}

struct InFlight {
  Subset subset;
  int64_t round = 0;
  at::Tensor mean = {};
  std::vector<at::Tensor> sent = {};
};

// Three replicas without gradients, a round of 5 % at each update, merged `lag` updates later.
// Returns the natural logarithm of the growth of the squared spread.
double growth(Correction correction, double nu) {
  constexpr int64_t kParameters = 400;
  constexpr int64_t kReplicas = 3;
  constexpr int64_t kUpdates = 8000;
  const Cut cut({.seed = 11, .parameters = kParameters, .fraction = 0.05, .granularity = 1});
  const auto lag = std::llround(nu * static_cast<double>(cut.parts()));
  const MergeOptions options = {.correction = correction, .run_rounds = 0};
  std::vector<at::Tensor> weights;
  std::vector<MergeBuffers> buffers;
  for (int64_t r = 0; r < kReplicas; ++r) {
    weights.push_back(at::randn({kParameters}, at::kDouble));
    buffers.push_back(make_merge_buffers(options, weights.back()));
  }
  const double before = spread_of(weights, mean_of(weights));
  std::deque<InFlight> rounds;
  for (int64_t update = 0; update < kUpdates; ++update) {
    if (!rounds.empty() && rounds.front().round + lag == update) {
      const InFlight& due = rounds.front();
      for (size_t r = 0; r < weights.size(); ++r) {
        merge(options,
              {.subset = due.subset,
               .round = due.round,
               .mean = due.mean,
               .sent = due.sent[r],
               .weights = weights[r]},
              buffers[r]);
      }
      rounds.pop_front();
    }
    InFlight next = {.subset = cut.subset(update), .round = update};
    for (const at::Tensor& own : weights) next.sent.push_back(gather(next.subset, own));
    next.mean = mean_of(next.sent);
    rounds.push_back(next);
  }
  return std::log(spread_of(weights, mean_of(weights)) / before);
}

// The limits warn before replicas drift apart by merging alone; this is where they do.
TEST(Stability, DeltaConvergesAt13AndDivergesAt17) {
  EXPECT_LT(growth(Correction::kDelta, 1.0), -5);
  EXPECT_LT(growth(Correction::kDelta, 1.3), -5);
  EXPECT_GT(growth(Correction::kDelta, 1.7), 5);
}

TEST(Stability, EmaConvergesAt28AndDivergesAt33) {
  EXPECT_LT(growth(Correction::kEma, 2.5), -5);
  EXPECT_LT(growth(Correction::kEma, 2.8), -5);
  EXPECT_GT(growth(Correction::kEma, 3.3), 5);
}

}  // namespace
}  // namespace leeway
