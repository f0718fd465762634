// What the replicas of a stage agree on about one kind of round, before the run. Pure data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "averaging/subset.h"
#include "averaging/wire.h"
#include "base/ids.h"
#include "base/replica_set.h"
#include "base/time.h"
#include "events/work.h"
#include "worker/membership.h"

namespace leeway {

// More owners than this would only make chunks small.
inline constexpr int64_t kOwnersMax = 8;

// Encoded size of the chunks of one stage's rounds: what a worker without compute counts as sent.
struct ChunkSizes {
  CutOptions cut;
  WireFormat wire = WireFormat::kF32;
  at::ScalarType type = at::kFloat;

  int64_t bytes(int64_t round, int64_t chunk, int64_t chunks) const {
    return encoded_bytes(wire, Cut(cut).count(round, chunk, chunks), type);
  }
};

struct LanePlan {
  Lane lane = Lane::kMain;
  int64_t replicas = 1;
  int64_t interval = 1;                // updates between two rounds; evaluation: between two means
  int64_t cycle = 1;                   // rounds until every coordinate has been exchanged
  std::optional<int64_t> lag = {};     // merge this many updates after sending; none: on arrival
  std::optional<Nanos> deadline = {};  // from a chunk's first arrival; none: wait for all replicas
  bool deadline_follows = false;       // longer where updates take longer: deadline.h
  double lag_limit = 0;    // guard: above this lag of any replica rounds are less frequent; 0: none
  bool gradients = false;  // rounds come before the update, and the update waits for them
  bool needs_every = false;            // rounds of steps: a missing answer is asked for again
  bool rotates = true;                 // chunks change owners from round to round
  bool replays = false;                // it was the run that could not take every message
  std::vector<ChunkSizes> sizes = {};  // by stage
  int64_t final_round = -1;            // evaluation: the last update of the run

  // Evaluation: whether it is of the mean of all replicas. Otherwise it is of the evaluator's own
  // weights, and the other replicas send nothing.
  bool evaluates_mean(int64_t update) const {
    return update == final_round || update % interval == 0;
  }
  // Copies for evaluations on the way are rounded to bf16, but for those of the final model.
  bool rounds_copies(int64_t round) const {
    return lane == Lane::kEvaluation && replicas > 1 && round != final_round;
  }
  // Encoded size of what a worker of this stage sends for a chunk.
  int64_t bytes(StageId stage, int64_t round, int64_t chunk) const {
    ChunkSizes own = sizes[static_cast<size_t>(stage.value)];
    if (rounds_copies(round) && own.type == at::kFloat) own.wire = WireFormat::kBf16;
    return own.bytes(round, chunk, chunks());
  }
  int64_t chunks() const { return lane == Lane::kEvaluation ? 1 : std::min(replicas, kOwnersMax); }
  // The replica that averages a chunk, among those that take part. The chunks themselves are cut
  // for the recipe's replicas.
  ReplicaId owner(int64_t round, int64_t chunk, const Membership& table) const {
    const ReplicaSet& members = table.members();
    const int64_t count = members.size();
    if (count == 0) return {0};  // nobody is left to average
    if (lane == Lane::kEvaluation) return table.senior();
    return members.member((chunk + (rotates ? round % count : 0)) % count);
  }
};

}  // namespace leeway
