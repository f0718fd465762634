// The arithmetic of one worker's rounds: its contributions, the means of the chunks that it owns,
// and the merges into its weights. Makes no decisions and sends nothing.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/merge.h"
#include "averaging/subset.h"
#include "averaging/wire.h"
#include "compute/late_reports.h"
#include "compute/stage_reports.h"
#include "events/work.h"
#include "pipeline/stage.h"

namespace leeway {

uint64_t hash_of_values(const at::Tensor& tensor);

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

  // One encoded tensor per chunk.
  std::vector<at::Tensor> contribute(Lane lane, int64_t round);
  struct Reduced {
    at::Tensor answer;  // encoded
    LateNorms norms;
    std::vector<size_t> refused = {};  // indices of parts with values that are not finite
  };
  // Leaves out parts that are not finite. If none is left, there is no answer, or with `awaited`,
  // for members that wait for one, an answer that is not finite either: each of them then sees it.
  Reduced reduce(Lane lane, int64_t round, int64_t chunk, const std::vector<at::Tensor>& parts,
                 bool awaited = false);
  LateNorms merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer);

  // For a common model, whose answers have numbers and whose contributions have the sender's own.
  // `exact`: nothing is left unsent. Undefined for chunks that `sends` leaves out.
  std::vector<at::Tensor> contribute_steps(Lane lane, int64_t number,
                                           const std::vector<bool>& sends, bool exact);
  // By chunk: what was sent as this contribution, and is still under way. 0: undefined.
  std::vector<at::Tensor> sent_steps(Lane lane, const std::vector<int64_t>& numbers) const;
  // `parts`: which these are, in the same order. Values that are not finite are left out: their
  // sender finds that its own are not.
  Reduced reduce_steps(Lane lane, const std::vector<PartId>& parts, int64_t chunk,
                       const std::vector<at::Tensor>& payloads, int64_t members);
  // `in`: own contributions that the answer has in it; `lost`: those that no answer will have.
  // Without a payload the answer changes nothing else.
  LateNorms merge_steps(Lane lane, int64_t chunk, const at::Tensor& answer,
                        const std::vector<int64_t>& in, const std::vector<int64_t>& lost);
  // A chunk of the common model as it is, and its running mean where there is one; and whether a
  // payload can be that.
  at::Tensor common_chunk(Lane lane, int64_t chunk) const;
  bool fits_whole(Lane lane, int64_t chunk, const at::Tensor& payload) const;
  // Takes that over from another replica; own steps that are not in it stay.
  void replace_common(Lane lane, int64_t chunk, const at::Tensor& whole,
                      const std::vector<int64_t>& in, const std::vector<int64_t>& lost);
  // The chunk has another owner.
  void write_off_residual(Lane lane, int64_t chunk);
  // Own contributions under way.
  std::vector<SentSteps> sent() const;
  int64_t chunk_values(Lane lane, int64_t chunk) const;
  uint64_t chunk_hash(Lane lane, int64_t chunk) const;

  // What all replicas share after the same update or answers: the common model, or the weights
  // where gradients are averaged; undefined: nothing.
  at::Tensor shared_model() const;
  // The common model; undefined: there is none.
  at::Tensor common_model() const;

  // As one that comes to a fleet that has gone on: no round is in flight.
  void restart();
  // Answers that are still missing will not be merged.
  void forget(Lane lane, int64_t round);

  // Whether a payload can be this chunk's: received data is not trusted.
  bool fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& encoded) const;

  // What a checkpoint saves: flat buffers of the stage's size, live, and their names. Who resumes
  // takes back what was under way, whether or not it was counted.
  static std::vector<std::string> buffer_names(const std::vector<LaneOptions>& lanes);
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;
  // Besides the weights: what the rules keep permanently, and what rounds in flight hold now.
  int64_t buffer_bytes() const;
  int64_t flight_bytes() const;

 private:
  static Reduced reduced_of(int64_t count, const at::Tensor& sums);
  static LateNorms norms_of(const MergeSums& merged);
  struct Flight {
    std::map<int64_t, at::Tensor> sent;  // by chunk: exact weights
  };
  struct LaneState {
    LaneOptions options;
    Cut cut;
    MergeBuffers merge;
    LowbitBuffers lowbit;
    std::map<int64_t, Flight> flights = {};                       // by round
    std::map<int64_t, std::map<int64_t, at::Tensor>> steps = {};  // by number and chunk, as sent
    // Chunks whose contributions under way are not in lowbit.flight.
    std::set<int64_t> uncounted = {};
  };
  LaneState& at(Lane lane);
  const LaneState& at(Lane lane) const;
  Subset chunk_of(const LaneState& lane, int64_t round, int64_t chunk) const;
  at::Tensor decode_steps(const LaneState& lane, const at::Tensor& encoded, int64_t count) const;
  at::Tensor pack_chunk(const LaneState& lane, int64_t chunk, const at::Tensor& code) const;
  static std::vector<at::Tensor> under_way(const LaneState& lane, int64_t chunk);
  at::Tensor contribute_chunk(LaneState& lane, int64_t chunk, const RandomKey& key, bool exact);
  void forget_rounding(LaneState& lane, int64_t chunk);
  struct TakenSteps {
    at::Tensor sent;
    bool counted = true;
  };
  static TakenSteps take_steps(LaneState& lane, int64_t number, int64_t chunk);
  RandomKey rounding_key(const LaneState& lane, int64_t round, int64_t chunk, bool answer) const;

  std::vector<LaneState> lanes_;
  ReplicaId replica_;
  Stage& stage_;
};

}  // namespace leeway
