#include "optim/lookahead.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace leeway {
namespace {

using Complex = std::complex<double>;

// A point (k, h) of the family of schemes.
struct Scheme {
  double gradient_share = 0;
  double horizon = 0;
};

// A point z = e^(i theta) on the circle, and -G C / (z-1) there: where that is real, it is the 1/x
// for which z is a root. It is linear in h and in k, so four values give it for every scheme.
struct CirclePoint {
  double theta = 0;
  double weight = 0;  // positive; see inverse_imaginary
  Complex momentum;
  Complex momentum_ahead;
  Complex gradient;
  Complex gradient_ahead;

  Complex inverse(const Scheme& s) const {
    return (1 - s.gradient_share) * (momentum + s.horizon * momentum_ahead) +
           s.gradient_share * (gradient + s.horizon * gradient_ahead);
  }
  // The imaginary part of the inverse, times |z-1|^2 |z-b|^2 / sin theta: a polynomial in cos theta
  // of degree about the largest delay, without the zeros at 0 and pi. It is smooth on the scale of
  // the grid, and keeps its sign where the inverse has a pole.
  double inverse_imaginary(const Scheme& s) const { return weight * inverse(s).imag(); }
};

// The upper half of the unit circle for one beta1 and mix of delays. (Roots come in pairs.)
class Circle {
 public:
  Circle(double beta1, const DelayMix& mix);

  // The largest 1/x of a root on the circle; 0 if there is none. Stops once it reaches `enough`.
  double largest_inverse(const Scheme& scheme, double enough) const;

 private:
  struct Share {
    double delay = 0;
    double share = 0;
  };

  CirclePoint at(double theta) const;
  double inverse_between(const Scheme& scheme, CirclePoint low, CirclePoint high) const;
  std::optional<CirclePoint> past_zero(const Scheme& scheme, size_t middle) const;

  double beta1_ = 0;
  std::vector<Share> shares_;
  std::vector<CirclePoint> grid_;  // ascending, from almost 0 to almost pi
  CirclePoint end_;                // pi itself, where everything is real
};

// Grid points per possible zero of the polynomial, and per factor e near theta = 0.
constexpr double kPointsPerZero = 12;
constexpr double kPointsPerFold = 12;

Circle::Circle(double beta1, const DelayMix& mix) : beta1_(beta1) {
  LEEWAY_CHECK(beta1 >= 0 && beta1 < 1, "beta1 is in [0, 1)");
  for (size_t delay = 0; delay < mix.shares.size(); ++delay) {
    if (mix.shares[delay] == 0) continue;
    shares_.push_back({static_cast<double>(delay), mix.shares[delay]});
  }
  LEEWAY_CHECK(!shares_.empty(), "a mix of delays has shares");

  // Two scales: the momentum's, 1-b, near theta = 0, and the delays', everywhere. Below a hundredth
  // of both, the inverse is almost exactly i / theta, which has no zero.
  const double zeros_max = shares_.back().delay + 4;
  const double step = std::numbers::pi / (zeros_max * kPointsPerZero);
  double theta = std::min(1 - beta1_, 1 / zeros_max) / 100;
  const double last = std::numbers::pi - step / 1000;
  while (theta < last) {
    grid_.push_back(at(theta));
    theta += std::min(step, theta / kPointsPerFold);
  }
  grid_.push_back(at(last));
  grid_.push_back(at(std::numbers::pi + step));  // the polynomial is even there
  end_ = at(std::numbers::pi);
}

CirclePoint Circle::at(double theta) const {
  const bool end = theta == std::numbers::pi;
  const Complex z = end ? Complex(-1) : std::polar(1.0, theta);
  Complex late = 0;
  Complex ahead = 0;
  for (const auto& [delay, share] : shares_) {
    // Exact powers of -1 at the end of the circle, so that values that are real there have no
    // imaginary part.
    const Complex power =
        end ? Complex(std::fmod(delay, 2) == 0 ? 1 : -1) : std::polar(1.0, -theta * delay);
    late += share * power;
    ahead += share * power * delay * (1.0 - 1.0 / z);
  }
  const Complex filter = (1 - beta1_) * z / (z - beta1_);
  const Complex inverse_step = -1.0 / (z - 1.0);
  CirclePoint point;
  point.theta = theta;
  point.weight = end ? 0 : std::norm(z - 1.0) * std::norm(z - beta1_) / z.imag();
  point.gradient = late * inverse_step;
  point.gradient_ahead = ahead * inverse_step;
  point.momentum = point.gradient * filter;
  point.momentum_ahead = point.gradient_ahead * filter;
  return point;
}

// The real part of the inverse where its imaginary part changes sign.
double Circle::inverse_between(const Scheme& scheme, CirclePoint low, CirclePoint high) const {
  const bool low_positive = low.inverse_imaginary(scheme) > 0;
  while (high.theta - low.theta > 1e-13 * high.theta) {
    const double middle = 0.5 * (low.theta + high.theta);
    if (middle <= low.theta || middle >= high.theta) break;  // adjacent doubles
    const CirclePoint point = at(middle);
    const bool positive = point.inverse_imaginary(scheme) > 0;
    (positive == low_positive ? low : high) = point;
  }
  return low.inverse(scheme).real();
}

// Finds a point of opposite sign near grid point `middle`, where the imaginary part comes close to
// zero without changing sign on the grid: there are two zeros between its neighbours, or none.
// Rare, but missing them would call an unstable scheme stable, and the search for the widest range
// would pick it.
std::optional<CirclePoint> Circle::past_zero(const Scheme& scheme, size_t middle) const {
  double low = grid_[middle - 1].theta;
  double high = grid_[middle + 1].theta;
  const bool positive = grid_[middle].inverse_imaginary(scheme) > 0;
  constexpr double kGolden = 0.6180339887498949;
  CirclePoint left = at(high - kGolden * (high - low));
  CirclePoint right = at(low + kGolden * (high - low));
  for (int step = 0; step < 40; ++step) {
    const double at_left = left.inverse_imaginary(scheme);
    const double at_right = right.inverse_imaginary(scheme);
    if ((at_left > 0) != positive) return left;
    if ((at_right > 0) != positive) return right;
    if (std::abs(at_left) < std::abs(at_right)) {
      high = right.theta;
      right = left;
      left = at(high - kGolden * (high - low));
    } else {
      low = left.theta;
      left = right;
      right = at(low + kGolden * (high - low));
    }
  }
  return std::nullopt;
}

double Circle::largest_inverse(const Scheme& scheme, double enough) const {
  double largest = std::max(0.0, end_.inverse(scheme).real());
  double before = 0;
  double here = grid_[0].inverse_imaginary(scheme);
  for (size_t i = 0; i + 1 < grid_.size() && largest < enough; ++i) {
    const double after = grid_[i + 1].inverse_imaginary(scheme);
    if ((here > 0) != (after > 0)) {
      largest = std::max(largest, inverse_between(scheme, grid_[i], grid_[i + 1]));
    } else if (i > 0 && (before > 0) == (here > 0) && std::abs(here) <= std::abs(before) &&
               std::abs(here) <= std::abs(after)) {
      if (const auto beyond = past_zero(scheme, i)) {
        largest = std::max({largest, inverse_between(scheme, grid_[i - 1], *beyond),
                            inverse_between(scheme, *beyond, grid_[i + 1])});
      }
    }
    before = here;
    here = after;
  }
  return largest;
}

constexpr int kGradientShares = 60;  // plus 0
constexpr double kGradientShareMin = 0.004;
constexpr double kGradientShareMax = 0.6;
constexpr int kHorizonSteps = 20;  // from 0 to 1
constexpr double kTie = 1e-9;      // ranges closer than this are equal

std::vector<double> gradient_shares() {
  std::vector<double> shares = {0};
  const double ratio = kGradientShareMax / kGradientShareMin;
  for (int i = 0; i < kGradientShares; ++i) {
    shares.push_back(kGradientShareMin *
                     std::pow(ratio, static_cast<double>(i) / (kGradientShares - 1)));
  }
  return shares;
}

std::vector<double> horizons(std::optional<double> given) {
  if (given) return {*given};
  std::vector<double> horizons;
  for (int i = 0; i <= kHorizonSteps; ++i) {
    horizons.push_back(static_cast<double>(i) / kHorizonSteps);
  }
  return horizons;
}

}  // namespace

double DelayMix::mean() const {
  double sum = 0;
  for (size_t delay = 0; delay < shares.size(); ++delay) {
    sum += static_cast<double>(delay) * shares[delay];
  }
  return sum;
}

bool DelayMix::late() const { return mean() > 0; }

DelayMix delay_mix(int64_t warmup_depth, int64_t update_every) {
  LEEWAY_CHECK(warmup_depth >= 0, "the warm-up depth is not negative");
  LEEWAY_CHECK(update_every >= 1, "an update has at least one microbatch");
  // With W = q K + r, the first r microbatches of an update are late by q + 1, the others by q.
  const int64_t whole = warmup_depth / update_every;
  const int64_t rest = warmup_depth % update_every;
  const double later = static_cast<double>(rest) / static_cast<double>(update_every);
  DelayMix mix;
  mix.shares.assign(static_cast<size_t>(whole) + 1, 0.0);
  mix.shares.back() = 1 - later;
  if (rest > 0) mix.shares.push_back(later);
  return mix;
}

double stable_range(double beta1, const DelayMix& mix, double gradient_share, double horizon) {
  const double inverse =
      Circle(beta1, mix)
          .largest_inverse({gradient_share, horizon}, std::numeric_limits<double>::infinity());
  return inverse > 0 ? 1 / inverse : std::numeric_limits<double>::infinity();
}

MatchedConstants matched_constants(double beta1, const DelayMix& mix,
                                   std::optional<double> horizon) {
  if (!mix.late()) return {.range = stable_range(beta1, mix, 0, 0)};
  const Circle circle(beta1, mix);
  Scheme best;
  double smallest = std::numeric_limits<double>::infinity();
  const std::vector<double> horizons_tried = horizons(horizon);
  for (const double share : gradient_shares()) {
    for (const double ahead : horizons_tried) {
      const double enough = smallest / (1 + kTie);
      const double inverse = circle.largest_inverse({share, ahead}, enough);
      if (inverse >= enough) continue;
      smallest = inverse;
      best = {share, ahead};
    }
  }
  return {.gradient_share = best.gradient_share, .horizon = best.horizon, .range = 1 / smallest};
}

}  // namespace leeway
