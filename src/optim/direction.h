// The direction of a rule's step, always a weighted sum of gradient and momentum:
// d = gradient * g + momentum * m, with m <- b1 m + (1-b1) g. A look-ahead that adapts the momentum
// to a delay is one more function here; the loops over the buffers do not change.
#pragma once

#include <cstdint>

namespace leeway {

struct Direction {
  double gradient = 0;
  double momentum = 1;
};

// SGD and Muon. Nesterov's form takes the gradient after the momentum's own step.
Direction momentum_direction(double beta1, bool nesterov);

// Adam: the bias-corrected momentum. `update` counts from 1.
Direction adam_direction(double beta1, int64_t update);

// NAdam's mu_t: Nesterov momentum that warms up from beta1/2 to beta1. `update` counts from 1.
double nadam_momentum(double beta1, int64_t update);

// NAdam; `product` is mu_1 * ... * mu_update.
Direction nadam_direction(double beta1, int64_t update, double product);

// The `matched` look-ahead, for any rule: k g + (1-k) m, with m bias-corrected. `gradient_share` is
// k (lookahead.h). `update` counts from 1.
Direction matched_direction(double beta1, int64_t update, double gradient_share);

}  // namespace leeway
