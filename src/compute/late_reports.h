// Results of a stage's work that a device may have yet to finish: read() then waits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compute/readout.h"
#include "compute/stage_reports.h"
#include "events/work.h"

namespace leeway {

struct LateUpdate {
  StageUpdate known;   // what the host knows beforehand, if the update is made
  Readout gate;        // kernels/gate.h
  bool total = false;  // clipped by the whole model's norm
  bool loss = false;   // the loss is known here
  StageUpdate read() const;
};

struct LatePrediction {
  Prediction known;
  Readout distances;  // squared: without a guess, and with it
  Prediction read() const;
};

// Sums of a merge: drift and correction; of a reduction: as in FiniteMean (kernels/means.h).
struct LateNorms {
  int64_t count = 0;
  bool reduction = false;
  Readout sums = {};
  RoundNorms read() const;
  std::vector<size_t> refused() const;  // indices of parts that were left out
};

}  // namespace leeway
