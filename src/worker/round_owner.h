// An owner's side of rounds: which replicas have sent their part of a chunk, and when to close it.
// Counters and an inbox; the mean itself is computed elsewhere.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/held.h"
#include "worker/lane.h"
#include "worker/message.h"

namespace leeway {

class RoundOwner {
 public:
  static constexpr int64_t kRememberedRounds = 64;  // parts of older ones are too late
  static constexpr size_t kOpenMax = 256;           // chunks, for an owner that stands still
  static constexpr size_t kEvaluationsOpenMax = 2;  // each has whole copies of the weights

  explicit RoundOwner(const LanePlan& plan, WorkerId worker);

  // A contribution or a deadline.
  void deliver(Message message);

  struct ChunkId {
    int64_t round = 0;
    int64_t chunk = 0;
    auto operator<=>(const ChunkId&) const = default;
  };
  // The oldest chunk that can be closed: every replica has sent its part, moved on to later rounds
  // or is absent, or the deadline has passed.
  std::optional<ChunkId> to_reduce() const;
  // A chunk whose first part has arrived and that has no deadline yet.
  std::optional<ChunkId> to_await() const;

  ReplicaSet contributors(const ChunkId& id) const;
  // The largest factor on the interval that a contributor wants (guard).
  int64_t stretch(const ChunkId& id) const { return chunks_.at(id).stretch; }
  // Whether all of `replicas` have sent their parts, and those parts in ascending order of replica.
  bool has(const ChunkId& id, const ReplicaSet& replicas) const;
  std::vector<at::Tensor> contributions(const ChunkId& id, const ReplicaSet& replicas) const;

  // Only the table's members are waited for. Chunks that another one owns now are dropped, and so
  // are evaluations up to `copied`, this worker's newest copy, if that went elsewhere.
  void adopt(const Membership& table, int64_t copied);

  // For evaluations: copies up to this update are not wanted any more.
  void give_up(int64_t update);
  // At later stages: stage 0 has averaged these replicas for the evaluation of this update, and
  // this stage averages the same ones.
  void expect(int64_t update, const ReplicaSet& replicas);
  // Whether some of their copies will not come.
  bool lacks_expected(int64_t update) const;

  void awaits(const ChunkId& id) { chunks_.at(id).awaited = true; }
  // The mean over `replicas` is made.
  void reduced(const ChunkId& id, const ReplicaSet& replicas);
  // Whether there is no room for the first part of this chunk.
  bool full(const ChunkId& id) const;
  // Whether parts are no longer accepted: the chunk is answered, or too old.
  bool closed(const ChunkId& id) const;

  // Replicas that a deadline passed without, and that have sent nothing since before the chunk was
  // opened: no chunk waits for them until they send something again.
  const ReplicaSet& absent() const { return absent_; }

  int64_t late() const { return late_; }        // parts that arrived after their chunk was closed
  int64_t missing() const { return missing_; }  // parts still missing when their chunk was closed
  size_t open_count() const { return chunks_.size(); }
  void add_to(Held& held) const {
    held.open_chunks += std::ssize(chunks_);
    held.given += std::ssize(answered_);
  }

 private:
  struct Chunk {
    ReplicaSet arrived;
    ReplicaSet weighted;                  // replicas whose part has weight
    std::map<int64_t, at::Tensor> parts;  // by replica
    int64_t opened_at = 0;                // in parts received, as heard_at_
    int64_t stretch = 1;                  // the largest that a contributor wants
    bool awaited = false;
    bool expired = false;
  };
  void expire(const ChunkId& id);
  ReplicaSet awaited(int64_t round) const;
  bool closable(const ChunkId& id, const Chunk& chunk) const;
  bool closable_evaluation(const ChunkId& id, const Chunk& chunk) const;
  bool all_came_or_excused(const ChunkId& id, const Chunk& chunk) const;
  int64_t newest_over() const;

  LanePlan plan_;
  bool is_told_;                            // by stage 0, which replicas an evaluation is of
  std::map<int64_t, ReplicaSet> expected_;  // by update
  ReplicaId replica_;
  Membership table_;
  int64_t over_ = -1;  // evaluations up to this update are over
  std::map<ChunkId, Chunk> chunks_;
  std::vector<int64_t> newest_from_;  // round, by replica; -1: nothing yet
  std::vector<int64_t> heard_at_;     // by replica: parts received, up to its newest
  int64_t received_ = 0;              // parts
  ReplicaSet absent_;
  std::set<ChunkId> answered_;  // of recent rounds, or given away
  int64_t newest_closed_ = -1;
  int64_t late_ = 0;
  int64_t missing_ = 0;
};

}  // namespace leeway
