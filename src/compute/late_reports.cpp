#include "compute/late_reports.h"

#include "kernels/gate_fields.h"
#include "kernels/means.h"
#include "pipeline/prediction.h"

namespace leeway {

StageUpdate LateUpdate::read() const {
  StageUpdate update = known;
  update.applied = gate.at(kGateOpen) != 0;
  if (!update.applied) --update.update;
  update.squared_norm = gate.at(kGateNorm);
  if (total) update.total_squared_norm = gate.at(kGateTotal);
  if (loss) update.loss = gate.at(kGateLoss);
  return update;
}

Prediction LatePrediction::read() const {
  Prediction prediction = known;
  prediction.error = prediction_error(distances.at(0), distances.at(1));
  return prediction;
}

RoundNorms LateNorms::read() const {
  if (sums.count() == 0) return {.count = count};
  if (reduction) {
    return {.count = count,
            .spread = sums.at(FiniteMean::kSpread),
            .scale = sums.at(FiniteMean::kScale)};
  }
  return {.count = count, .drift = sums.at(0), .correction = sums.at(1)};
}

std::vector<size_t> LateNorms::refused() const {
  std::vector<size_t> parts;
  for (int64_t i = FiniteMean::kFirstValue; reduction && i < sums.count(); ++i) {
    if (sums.at(i) == 0) parts.push_back(static_cast<size_t>(i - FiniteMean::kFirstValue));
  }
  return parts;
}

}  // namespace leeway
