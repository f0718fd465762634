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

// Chunks of a round, each with its own owner: as many as replicas, so that an owner's share of
// bytes and work does not grow with the fleet, while a chunk's message on the wire is larger than
// this. Below it a message costs its latency whatever its size, and more of them only cost time.
inline constexpr int64_t kChunkBytesMin = 64 * 1024;
// Small models are spread over this many all the same: eight small messages are cheap, and a single
// owner would be a bottleneck.
inline constexpr int64_t kSmallModelChunks = 8;
inline int64_t chunk_count(int64_t replicas, int64_t contribution_bytes) {
  const int64_t large = contribution_bytes / kChunkBytesMin;
  return std::min(replicas, std::max(large, kSmallModelChunks));
}

// How a stage's rounds are cut into chunks, and how long their messages are expected to be: what a
// worker without compute counts as sent.
struct ChunkSizes {
  CutOptions cut;
  WireFormat wire = WireFormat::kF32;
  at::ScalarType type = at::kFloat;
  int64_t chunks = 1;
  double threshold = kUsualThreshold;  // of ternary

  int64_t bytes(int64_t round, int64_t chunk, int64_t of_chunks) const {
    return packed_bytes(wire, threshold, Cut(cut).count(round, chunk, of_chunks), type);
  }
  int64_t bytes_max(int64_t chunk, int64_t of_chunks) const {
    return encoded_bytes(wire, Cut(cut).count(0, chunk, of_chunks), type);
  }
};

struct LanePlan {
  Lane lane = Lane::kMain;
  int64_t replicas = 1;
  int64_t interval = 1;      // updates between two rounds; evaluation: between two means
  int64_t cycle = 1;         // rounds until every coordinate has been exchanged
  int64_t update_every = 1;  // backwards of an update
  // Merge this many backwards after sending, update_every for a lag of one; none: on arrival.
  std::optional<int64_t> lag_backwards = {};
  std::optional<Nanos> deadline = {};  // from a chunk's first arrival; none: wait for all replicas
  bool deadline_follows = false;       // longer where updates take longer: deadline.h
  double lag_limit = 0;    // guard: above this lag of any replica rounds are less frequent; 0: none
  bool gradients = false;  // rounds come before the update, and the update waits for them
  bool common = false;     // one common model: common_model.h
  int64_t check_every = 1;  // of a common model: answers between two hashes of a whole chunk
  bool replays = false;     // it was the run that could not take every message
  std::vector<ChunkSizes> sizes = {};  // by stage
  int64_t final_round = -1;            // evaluation: the last update of the run
  bool of_common = false;              // evaluation: of the common model, and nothing is sent

  // Whether merges may come after so many backwards of an update. All may at its end.
  bool merges_at(int64_t position) const {
    if (position == 0) return true;
    return !gradients && (!lag_backwards || *lag_backwards % update_every == position);
  }
  // Rounded up.
  std::optional<int64_t> lag_updates() const {
    if (!lag_backwards) return std::nullopt;
    return (*lag_backwards + update_every - 1) / update_every;
  }

  // Evaluation: whether it is of the mean of all replicas. Otherwise it is of the evaluator's own
  // weights, and the other replicas send nothing.
  bool evaluates_mean(int64_t update) const {
    return !of_common && (update == final_round || update % interval == 0);
  }
  // Copies for evaluations on the way are rounded to bf16, but for those of the final model.
  bool rounds_copies(int64_t round) const {
    return lane == Lane::kEvaluation && replicas > 1 && round != final_round;
  }
  // Expected size of what a worker of this stage sends for a chunk.
  int64_t bytes(StageId stage, int64_t round, int64_t chunk) const {
    ChunkSizes own = sizes[static_cast<size_t>(stage.value)];
    if (rounds_copies(round) && own.type == at::kFloat) own.wire = WireFormat::kBf16;
    return own.bytes(round, chunk, chunks(stage));
  }
  // Of a chunk of a common model as it is, in full precision.
  int64_t whole_bytes(StageId stage, int64_t chunk) const {
    ChunkSizes own = sizes[static_cast<size_t>(stage.value)];
    own.wire = WireFormat::kF32;
    return own.bytes(0, chunk, chunks(stage));
  }
  // The same for all workers of a stage, whoever takes part.
  int64_t chunks(StageId stage) const {
    if (lane == Lane::kEvaluation) return 1;
    if (sizes.empty()) return chunk_count(replicas, 0);
    return sizes[static_cast<size_t>(stage.value)].chunks;
  }
  // The replica that averages a chunk, among those that take part.
  ReplicaId owner(int64_t round, int64_t chunk, const Membership& table) const {
    const ReplicaSet& members = table.members();
    const int64_t count = members.size();
    if (count == 0) return {0};  // nobody is left to average
    if (lane == Lane::kEvaluation) return table.senior();
    if (!common) return members.member((chunk + round % count) % count);
    // An owner that changes loses what it has yet to say. So a chunk stays with the replica of its
    // number, whoever else comes and goes.
    const ReplicaId home = {chunk};
    return table.has(home) ? home : members.member(chunk % count);
  }
};

}  // namespace leeway
