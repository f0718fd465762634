// Measures the theory of the look-aheads. The real optimizer trains quadratics 0.5 c w^2 with late
// gradients; the largest c that does not diverge must be where stable_range says.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optim/lookahead.h"
#include "optim/optimizer.h"

namespace leeway {
namespace {

constexpr double kBeta1 = 0.9;
constexpr int64_t kCurvatures = 64;  // tried at once
constexpr int kUpdates = 20000;
constexpr int kWindow = 60;  // updates whose largest |w| is compared: longer than an oscillation

struct Scheme {
  std::string name;
  UpdateOptions options;
  double horizon = 0;
  double range = 0;  // predicted by theory
};

std::vector<Scheme> schemes(const DelayMix& mix) {
  UpdateOptions plain = {.rule = UpdateRule::kSgd, .rate = 1, .beta1 = kBeta1, .nesterov = false};
  UpdateOptions nesterov = plain;
  nesterov.nesterov = true;
  const MatchedConstants constants = matched_constants(kBeta1, mix);
  UpdateOptions matched = plain;
  if (mix.late()) matched.gradient_share = constants.gradient_share;
  return {{"plain", plain, 0, stable_range(kBeta1, mix, 0, 0)},
          {"nesterov", nesterov, 0, stable_range(kBeta1, mix, 1 - kBeta1, 0)},
          {"predict", plain, 1, stable_range(kBeta1, mix, 0, 1)},
          {"matched", matched, constants.horizon, constants.range}};
}

// Weights under training, with as many old versions as the delays need.
class LateQuadratics {
 public:
  LateQuadratics(const Scheme& scheme, const DelayMix& mix, std::vector<double> curvatures)
      : horizon_(scheme.horizon),
        mix_(mix),
        curvatures_(std::move(curvatures)),
        weights_(at::ones({kCurvatures}, at::kDouble)),
        gradients_(at::zeros({kCurvatures}, at::kDouble)),
        optimizer_(scheme.options, {{"w", ParameterKind::kVector, 0, 1, kCurvatures}}, at::kDouble),
        versions_(mix.shares.size() + 1, std::vector<double>(kCurvatures, 1.0)) {}

  void update() {
    double* const gradients = gradients_.mutable_data_ptr<double>();
    std::fill_n(gradients, kCurvatures, 0.0);
    for (size_t delay = 0; delay < mix_.shares.size(); ++delay) {
      const std::vector<double>& version = versions_[delay];  // the newest comes first
      const std::vector<double>& before = versions_[delay + 1];
      const double ahead = horizon_ * static_cast<double>(delay);
      for (size_t i = 0; i < version.size(); ++i) {
        const double looked_ahead = version[i] + ahead * (version[i] - before[i]);
        gradients[i] += mix_.shares[delay] * curvatures_[i] * looked_ahead;
      }
    }
    optimizer_.update({.weights = weights_, .gradients = gradients_, .compute = {}});
    versions_.pop_back();
    const double* const weights = weights_.const_data_ptr<double>();
    versions_.emplace_front(weights, weights + kCurvatures);
  }

  // The largest |w| of each quadratic in the next few updates.
  std::vector<double> sizes() {
    std::vector<double> largest(kCurvatures, 0.0);
    for (int n = 0; n < kWindow; ++n) {
      update();
      for (size_t i = 0; i < largest.size(); ++i) {
        const double size = std::abs(versions_[0][i]);
        largest[i] = std::isfinite(size) ? std::max(largest[i], size) : INFINITY;
      }
    }
    return largest;
  }

 private:
  double horizon_ = 0;
  DelayMix mix_;
  std::vector<double> curvatures_;
  at::Tensor weights_;
  at::Tensor gradients_;
  Optimizer optimizer_;
  std::deque<std::vector<double>> versions_;
};

struct Interval {
  double low = 0;   // shrinks
  double high = 0;  // grows
};

// Tries geometrically spaced curvatures between the ends, and finds the first that grows.
std::optional<Interval> narrowed(const Scheme& scheme, const DelayMix& mix, const Interval& from) {
  std::vector<double> curvatures;
  for (int64_t i = 0; i < kCurvatures; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(kCurvatures - 1);
    curvatures.push_back(from.low * std::pow(from.high / from.low, part));
  }
  LateQuadratics quadratics(scheme, mix, curvatures);
  for (int n = 0; n < kUpdates / 2; ++n) quadratics.update();
  const std::vector<double> halfway = quadratics.sizes();
  for (int n = 0; n < kUpdates / 2; ++n) quadratics.update();
  const std::vector<double> end = quadratics.sizes();
  for (size_t i = 1; i < curvatures.size(); ++i) {
    const bool grew = std::isinf(end[i]) || end[i] > halfway[i];
    if (grew) return Interval{curvatures[i - 1], curvatures[i]};
  }
  return std::nullopt;
}

double measured_range(const Scheme& scheme, const DelayMix& mix) {
  std::optional<Interval> interval = Interval{0.01, 300};
  for (int pass = 0; pass < 2 && interval; ++pass) interval = narrowed(scheme, mix, *interval);
  return interval ? interval->high : INFINITY;
}

// Maps each measured range to its scheme, so that a failure shows all of them.
std::map<double, std::string> measured_ranges(const DelayMix& mix) {
  std::map<double, std::string> found;
  for (const Scheme& scheme : schemes(mix)) {
    const double range = measured_range(scheme, mix);
    EXPECT_NEAR(range, scheme.range, 0.005 * scheme.range) << scheme.name;
    found[range] = scheme.name;
  }
  return found;
}

class Theory : public testing::TestWithParam<int64_t> {};

TEST_P(Theory, HoldsWhereAllMicrobatchesAreLate) {
  const DelayMix mix = delay_mix(GetParam(), 1);
  const auto found = measured_ranges(mix);
  if (mix.late()) {
    EXPECT_EQ(found.rbegin()->second, "matched") << testing::PrintToString(found);
  }
}

INSTANTIATE_TEST_SUITE_P(Delay, Theory, testing::Range<int64_t>(0, 8));

TEST(TheoryOfMixes, HoldsWhereSomeMicrobatchesAreLate) {
  for (const auto& [depth, update_every] : {std::pair{1, 8}, {4, 8}, {7, 8}, {5, 2}}) {
    SCOPED_TRACE(testing::Message() << depth << " / " << update_every);
    const auto found = measured_ranges(delay_mix(depth, update_every));
    EXPECT_EQ(found.rbegin()->second, "matched") << testing::PrintToString(found);
  }
}

}  // namespace
}  // namespace leeway
