// The arithmetic of one worker's rounds: its contributions, the means of the chunks that it owns,
// and the merges into its weights. Makes no decisions and sends nothing.
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

// What a contribution contains.
enum class RoundPayload { kWeights, kGradients, kSteps };

struct LaneOptions {
  Lane lane = Lane::kMain;
  RoundPayload payload = RoundPayload::kWeights;
  CutOptions cut;  // with the stage's number of parameters
  int64_t chunks = 1;
  WireFormat wire = WireFormat::kF32;
  MergeOptions merge;
  LowbitOptions lowbit;
};

class AveragingCompute {
 public:
  // The stage must outlive this object.
  AveragingCompute(const std::vector<LaneOptions>& lanes, ReplicaId replica, Stage& stage);

  // Call these around an optimizer step: `lowbit` sends the steps.
  void before_update();
  void after_update();

  // One encoded tensor per chunk.
  std::vector<at::Tensor> contribute(Lane lane, int64_t round);
  struct Reduced {
    at::Tensor answer;  // encoded
    RoundNorms norms;
    std::vector<size_t> refused = {};  // indices of parts with values that are not finite
  };
  // Leaves out parts that are not finite. If none is left, there is no answer, or with `awaited`,
  // for members that wait for one, an answer that is not finite either: each of them then sees it.
  Reduced reduce(Lane lane, int64_t round, int64_t chunk, const std::vector<at::Tensor>& parts,
                 bool awaited = false);
  // `contributed`: this worker's contribution is in the mean.
  RoundNorms merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer,
                   bool contributed);
  // As one that comes to a fleet that has gone on: no round is in flight.
  void restart();
  // Answers that are still missing will not be merged.
  void forget(Lane lane, int64_t round);

  // Whether a payload can be this chunk's: received data is not trusted.
  bool fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& encoded) const;

  // What a checkpoint saves: flat buffers of the stage's size, live, and their names.
  static std::vector<std::string> buffer_names(const std::vector<LaneOptions>& lanes);
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  // Besides the weights: what the rules keep permanently, and what rounds in flight hold now.
  int64_t buffer_bytes() const;
  int64_t flight_bytes() const;

 private:
  static std::vector<size_t> leave_out_infinite(std::vector<at::Tensor>& values);
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
