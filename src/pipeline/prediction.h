// Measures how good the look-ahead is on a sample: keeps the weights when a late forward starts,
// and compares them with the weights that its gradient meets.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "base/ids.h"

namespace leeway {

struct PredictionSample {
  UpdateId update;  // the one the gradient goes into, counted from 0
  int64_t delay = 0;
  // Squared distances from the actual weights, fp64 [2] on their device: of the weights without a
  // guess, and of the guess.
  at::Tensor distances;
};
// The distance from guessed to actual weights, over the distance without a guess.
double prediction_error(double without, double with);

class PredictionProbe {
 public:
  bool waiting() const { return start_.defined(); }
  bool due(UpdateId now) const { return waiting() && now == update_; }

  // A forward starts at `guess` while the weights are `weights`; its gradient will go into the
  // update after `delay` more.
  void begin(UpdateId now, int64_t delay, const at::Tensor& weights, const at::Tensor& guess);
  // `weights` are the ones that the gradient meets.
  PredictionSample end(const at::Tensor& weights);

 private:
  UpdateId update_;
  int64_t delay_ = 0;
  at::Tensor start_;
  at::Tensor guess_;
};

}  // namespace leeway
