// Look-ahead: what is done about gradients that come late.
//
// On a quadratic of curvature c, an update with the direction k g + (1-k) m and forwards at
// w + h delay u (u the last update that the forward knows of) moves w along the roots z of
//   (z-1) + x G(z) C(z) = 0,  x = rate c
//   G(z) = sum over delays d of share_d z^-d (1 + h d (1 - 1/z))     how old the gradients are
//   C(z) = k + (1-k) (1-b1) z / (z - b1)                             what the momentum makes of
//   them
// and is stable while all of them are inside the unit circle. The known schemes are points (k, h):
// plain momentum (0, 0), `predict` (0, horizon), and Nesterov's form (1-b1, 0), whose direction
// (1-b1) g + b1 m is k g + (1-k) m. `matched` is the point that is stable for the widest x.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace leeway {

// How late the microbatches of an update are: shares[d] of them by d updates. Sums to 1.
struct DelayMix {
  std::vector<double> shares;

  double mean() const;
  bool late() const;  // is any of them?
};

// The mix of a stage with `warmup_depth` (W_s) forwards in flight and an update every
// `update_every` (K) microbatches, once it runs steadily: delay_s(m) = floor(m/K) - floor((m -
// W_s)/K).
DelayMix delay_mix(int64_t warmup_depth, int64_t update_every);

// The x up to which (k, h) is stable, infinity if there is no such x. beta1 is 0 to below 1.
double stable_range(double beta1, const DelayMix& mix, double gradient_share, double horizon);

struct MatchedConstants {
  double gradient_share = 0;  // k
  double horizon = 0;         // h
  double range = 0;           // of x, for these two
};

// The (k, h) with the widest stable range, ties to the smaller k, then to the smaller h; with a
// `horizon` the best k for it. Takes some milliseconds: once per stage, at the start.
// Nothing late: there is nothing to match, and the optimizer keeps its own form. The answer is
// then plain momentum's, for the record; leave UpdateOptions::gradient_share unset.
MatchedConstants matched_constants(double beta1, const DelayMix& mix,
                                   std::optional<double> horizon = std::nullopt);

// `lr_discount`: what the rate of a stage with gradients up to `delay_max` (tau_s) updates late is
// multiplied by, 1 / max(tau_s, 1)^rho; rho falls from 1 to 0 in `discount_updates`. `update`
// counts from 0.
double discount_factor(int64_t delay_max, int64_t update, int64_t discount_updates);

}  // namespace leeway
