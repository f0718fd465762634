// What a gate holds, and how it is filled: shared by the CPU and CUDA twins.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/clip.h"

namespace leeway {

// A gate is a tensor of these, fp64.
enum GateField : int64_t {
  kGateScale = 0,  // the factor for the gradients
  kGateOpen = 1,   // 1: the update is made; 0: something was not finite, now or before
  kGateNorm = 2,   // this stage's squared norm
  kGateTotal = 3,  // the squared norm that clips: the whole model's, or this stage's
  kGateLoss = 4,   // mean over the microbatches; 0 without
  kGateFields = 5,
};

struct GateNumbers {
  double norm;
  double total;
  double loss;
  double clip;
  double factor;
};

// One that has closed stays closed: what comes after an update that was not made belongs to a run
// that has diverged.
LEEWAY_SIMD_BODY LEEWAY_ON_DEVICE void fill_gate(const GateNumbers& n, double* gate) {
  // Not std::isfinite, which device code lacks: only of a finite number the difference is 0.
  const bool finite = n.total - n.total == 0 && n.loss - n.loss == 0;
  gate[kGateScale] = n.factor * clip_scale(n.total * n.factor * n.factor, n.clip);
  if (!finite) gate[kGateOpen] = 0;
  gate[kGateNorm] = n.norm;
  gate[kGateTotal] = n.total;
  gate[kGateLoss] = n.loss;
}

}  // namespace leeway
