#include "pipeline/prediction.h"

#include <cmath>

#include "base/check.h"
#include "kernels/norms.h"

namespace leeway {

void PredictionProbe::begin(UpdateId now, int64_t delay, const at::Tensor& weights,
                            const at::Tensor& guess) {
  LEEWAY_CHECK(!waiting() && delay > 0, "one sample of a late forward at a time");
  update_ = {now.value + delay};
  delay_ = delay;
  // Without look-ahead the forward would have used the weights rounded to the same compute type.
  start_ = weights.to(guess.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  guess_ = guess.clone();
}

PredictionSample PredictionProbe::end(const at::Tensor& weights) {
  const at::Tensor without = squared_distance(start_, weights);
  const at::Tensor with = squared_distance(guess_, weights);
  start_.reset();
  guess_.reset();
  return {.update = update_, .delay = delay_, .distances = at::cat({without, with})};
}

// If the weights did not move, the guess counts as no better than none.
double prediction_error(double without, double with) {
  return without > 0 ? std::sqrt(with) / std::sqrt(without) : 1.0;
}

}  // namespace leeway
