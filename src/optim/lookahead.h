// Look-ahead: compensating for late gradients.
//
// On a quadratic of curvature c, an update with the direction k g + (1-k) m and forwards at
// w + h delay u (u the last update that the forward knows of) moves w along the roots z of
//   (z-1) + x G(z) C(z) = 0,  x = rate c
//   G(z) = sum over delays d of share_d z^-d (1 + h d (1 - 1/z))     how old the gradients are
//   C(z) = k + (1-k) (1-b1) z / (z - b1)                             how the momentum filters them
// and is stable while all of them are inside the unit circle. The known schemes are points (k, h):
// plain momentum (0, 0), `predict` (0, horizon), and Nesterov's form (1-b1, 0), whose direction
// (1-b1) g + b1 m is k g + (1-k) m. `matched` is the point with the widest stable range.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace leeway {

// How late the microbatches of an update are: shares[d] of them by d updates. Sums to 1.
struct DelayMix {
  std::vector<double> shares;

  double mean() const;
  bool late() const;  // whether any microbatch is late
};

// The mix of a stage with `warmup_depth` (W_s) forwards in flight and an update every
// `update_every` (K) microbatches, in steady state: delay_s(m) = floor(m/K) - floor((m - W_s)/K).
DelayMix delay_mix(int64_t warmup_depth, int64_t update_every);

// The largest x for which (k, h) is stable; infinity if there is no limit. beta1 is in [0, 1).
double stable_range(double beta1, const DelayMix& mix, double gradient_share, double horizon);

struct MatchedConstants {
  double gradient_share = 0;  // k
  double horizon = 0;         // h
  double range = 0;           // stable range of x for these two
};

// The (k, h) with the widest stable range; ties go to the smaller k, then to the smaller h. With a
// `horizon`, the best k for it. Takes a few milliseconds: call it once per stage, at the start. If
// nothing is late there is nothing to match: the result is plain momentum, for the record. Leave
// UpdateOptions::gradient_share unset then, so that the optimizer keeps its own form.
MatchedConstants matched_constants(double beta1, const DelayMix& mix,
                                   std::optional<double> horizon = std::nullopt);

}  // namespace leeway
