// How good the look-ahead is, measured on a sample: weights are kept when a late forward starts and
// compared when its gradient meets the weights of its own update.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "base/ids.h"

namespace leeway {

struct PredictionError {
  UpdateId update;  // the one that the gradient goes into, counted from 0
  int64_t delay = 0;
  double error = 0;  // distance guessed weights - met weights, over distance without the guess
};

class PredictionProbe {
 public:
  bool waiting() const { return start_.defined(); }
  bool due(UpdateId now) const { return waiting() && now == update_; }

  // A forward starts at `guess` where the weights are `weights`; its gradient will go into the
  // update after `delay` more.
  void begin(UpdateId now, int64_t delay, const at::Tensor& weights, const at::Tensor& guess);
  // `weights` are those that the gradient meets.
  PredictionError end(const at::Tensor& weights);

 private:
  UpdateId update_;
  int64_t delay_ = 0;
  at::Tensor start_;
  at::Tensor guess_;
};

}  // namespace leeway
