#include "optim/lookahead.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/norms.h"

namespace leeway {
namespace {

struct Case {
  double beta1 = 0;
  DelayMix mix;
  double gradient_share = 0;
  double horizon = 0;
};

double between(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 100'001) / 100'000.0;
}

// Any shares of any delays, or those of a stage.
DelayMix any_mix() {
  if (*rc::gen::arbitrary<bool>()) {
    return delay_mix(*rc::gen::inRange<int64_t>(0, 15), *rc::gen::inRange<int64_t>(1, 9));
  }
  DelayMix mix;
  double sum = 0;
  const int count = *rc::gen::inRange(1, 10);
  for (int d = 0; d < count; ++d) mix.shares.push_back(between(0, 1));
  mix.shares.back() += 0.01;
  for (const double share : mix.shares) sum += share;
  for (double& share : mix.shares) share /= sum;
  return mix;
}

Case any_case() {
  Case c;
  c.beta1 = *rc::gen::arbitrary<bool>() ? between(0, 0.995) : 1 - std::exp(-between(0, 6));
  c.mix = any_mix();
  c.gradient_share = *rc::gen::arbitrary<bool>() ? between(0, 1) : std::exp(-between(0, 6));
  c.horizon = between(0, 1.5);
  return c;
}

// The largest |z| with (z-1) + x G(z) C(z) = 0. Multiplied by z^(D+1) (z-b) that is a polynomial;
// its roots are the eigenvalues of its companion matrix.
double largest_root(const Case& c, double x) {
  const size_t degree = c.mix.shares.size() + 2;  // D + 3
  std::vector<double> polynomial(degree + 1);     // [power of z]
  polynomial[degree] += 1;
  polynomial[degree - 1] -= 1 + c.beta1;
  polynomial[degree - 2] += c.beta1;
  // C (z-b) = on z - off
  const double on = c.gradient_share + (1 - c.gradient_share) * (1 - c.beta1);
  const double off = c.gradient_share * c.beta1;
  for (size_t d = 0; d < c.mix.shares.size(); ++d) {
    const double ahead = c.horizon * static_cast<double>(d);
    const double now = x * c.mix.shares[d] * (1 + ahead);
    const double before = -x * c.mix.shares[d] * ahead;
    polynomial[degree - 1 - d] += now * on;
    polynomial[degree - 2 - d] += before * on - now * off;
    polynomial[degree - 3 - d] -= before * off;
  }
  const at::Tensor companion =
      at::diag(at::ones({static_cast<int64_t>(degree) - 1}, at::kDouble), -1);
  for (size_t i = 0; i < degree; ++i) {
    companion[static_cast<int64_t>(i)][static_cast<int64_t>(degree) - 1] = -polynomial[i];
  }
  return at::linalg_eigvals(companion).abs().max().item<double>();
}

RC_GTEST_PROP(StableRange, IsWhereTheFirstRootLeavesTheCircle, ()) {
  const Case c = any_case();
  const double range = stable_range(c.beta1, c.mix, c.gradient_share, c.horizon);
  RC_ASSERT(range > 0);
  RC_ASSERT(std::isfinite(range));
  RC_ASSERT(std::abs(largest_root(c, range) - 1) < 1e-6);
  for (const double part : {0.01, 0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999}) {
    RC_ASSERT(largest_root(c, part * range) < 1);
  }
}

RC_GTEST_PROP(StableRange, IsFoundAgainByBisectionOnTheRoots, ()) {
  const Case c = any_case();
  const double range = stable_range(c.beta1, c.mix, c.gradient_share, c.horizon);
  // Beyond the range a root may come back in, so the search stays near it.
  double stable = 0.5 * range;
  double unstable = 1.0001 * range;
  RC_PRE(largest_root(c, unstable) > 1);
  while (unstable - stable > 1e-7 * range) {
    const double middle = 0.5 * (stable + unstable);
    (largest_root(c, middle) < 1 ? stable : unstable) = middle;
  }
  RC_ASSERT(std::abs(stable - range) < 1e-5 * range);
}

TEST(StableRange, FindsARootThatLeavesBriefly) {
  // At a horizon of .019 the root turns back just before the circle, and the range is 4.05. Here it
  // crosses twice, at angles closer together than the steps of a plain scan of the circle.
  const Case c = {.beta1 = 0.5185,
                  .mix = {{0.387, 0.083, 0.234, 0.117, 0.143, 0.036}},
                  .gradient_share = 0.8644,
                  .horizon = 0.0195};
  const double range = stable_range(c.beta1, c.mix, c.gradient_share, c.horizon);
  EXPECT_LT(range, 3);
  EXPECT_NEAR(largest_root(c, range), 1, 1e-9);
  EXPECT_LT(largest_root(c, 0.99 * range), 1);
  EXPECT_GT(largest_root(c, 1.02 * range), 1);
  EXPECT_LT(largest_root(c, 1.2 * range), 1);
  EXPECT_GT(stable_range(c.beta1, c.mix, c.gradient_share, 0.019), 4);
}

RC_GTEST_PROP(MatchedConstants, NoOtherGridPointIsStableForMore, ()) {
  const double beta1 = between(0, 0.995);
  const DelayMix mix = any_mix();
  const MatchedConstants matched = matched_constants(beta1, mix);
  const int step = *rc::gen::inRange(-1, 60);
  const double share = step < 0 ? 0 : 0.004 * std::pow(150, step / 59.0);
  const double horizon = *rc::gen::inRange(0, 21) / 20.0;
  if (mix.late()) {
    RC_ASSERT(stable_range(beta1, mix, share, horizon) <= matched.range * (1 + 1e-8));
    RC_ASSERT(matched.range >= stable_range(beta1, mix, 0, 0) * (1 - 1e-8));
  }
  RC_ASSERT(stable_range(beta1, mix, matched.gradient_share, matched.horizon) == matched.range);
}

RC_GTEST_PROP(ParameterSquaredNorms, DoNotDependOnHowTheModelIsCut, ()) {
  ParameterLayout layout;
  const int count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    const int64_t length = *rc::gen::inRange<int64_t>(1, 40'000);
    layout.push_back(
        {std::to_string(i), ParameterKind::kVector, parameter_count(layout), 1, length});
  }
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  const at::Tensor whole = at::randn({parameter_count(layout)});
  std::vector<at::Tensor> by_stages;
  for (size_t first = 0; first < layout.size();) {
    const size_t last = first + static_cast<size_t>(*rc::gen::inRange(1, 5));
    ParameterLayout stage;
    const int64_t offset = layout[first].offset;
    for (; first < std::min(last, layout.size()); ++first) {
      stage.push_back(layout[first]);
      stage.back().offset -= offset;
    }
    const at::Tensor part = whole.narrow(0, offset, parameter_count(stage)).clone();
    by_stages.push_back(ParameterNorms(stage, at::kCPU).squares(part));
  }
  RC_ASSERT(at::equal(at::cat(by_stages), ParameterNorms(layout, at::kCPU).squares(whole)));
}

}  // namespace
}  // namespace leeway
