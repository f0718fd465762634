// The arithmetic of one worker's rounds: its parts of them, the means of the chunks that it owns,
// and what merges make of its weights. No decisions, and nothing is sent from here.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/merge.h"
#include "averaging/subset.h"
#include "averaging/wire.h"
#include "events/work.h"
#include "pipeline/stage.h"

namespace leeway {

// What travels.
enum class RoundPayload { kWeights, kGradients, kSteps };

struct LaneOptions {
  Lane lane = Lane::kMain;
  RoundPayload payload = RoundPayload::kWeights;
  CutOptions cut;  // its number of parameters is the stage's
  int64_t chunks = 1;
  WireFormat wire = WireFormat::kF32;
  MergeOptions merge;
  LowbitOptions lowbit;
};

class AveragingCompute {
 public:
  // The stage outlives this.
  AveragingCompute(const std::vector<LaneOptions>& lanes, ReplicaId replica, Stage& stage);

  // Around an optimizer step: `lowbit` sends what was done.
  void before_update();
  void after_update();

  // One encoded tensor for each chunk.
  std::vector<at::Tensor> contribute(Lane lane, int64_t round);
  struct Reduced {
    at::Tensor answer;  // encoded
    RoundNorms norms;
  };
  Reduced reduce(Lane lane, int64_t round, int64_t chunk, const std::vector<at::Tensor>& parts);
  // `contributed`: this worker's part is in the mean.
  RoundNorms merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer,
                   bool contributed);
  // The answers that are still missing will not be merged.
  void forget(Lane lane, int64_t round);

  // Whether a payload can be this chunk's: what arrives is input.
  bool fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& encoded) const;

  // What a checkpoint saves: flat buffers of the stage's size, live.
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  // Beside the weights: what the rules keep for good, and what rounds in flight hold now.
  int64_t buffer_bytes() const;
  int64_t flight_bytes() const;

 private:
  struct Flight {
    Subset subset;
    std::map<int64_t, at::Tensor> sent;  // by chunk: exact weights, or decoded steps
  };
  struct LaneState {
    LaneOptions options;
    Cut cut;
    MergeBuffers merge;
    LowbitBuffers lowbit;
    std::map<int64_t, Flight> flights;  // by round
  };
  LaneState& at(Lane lane);
  const LaneState& at(Lane lane) const;
  Subset chunk_of(const LaneState& lane, int64_t round, int64_t chunk) const;
  RandomKey rounding_key(const LaneState& lane, int64_t round, int64_t chunk, bool answer) const;

  std::vector<LaneState> lanes_;
  ReplicaId replica_;
  Stage& stage_;
  at::Tensor before_;  // weights before the optimizer step, where steps are sent
};

}  // namespace leeway
