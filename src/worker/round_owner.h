// An owner's side of rounds: who has sent what of which chunk, and whether it is time to close it.
// Counters and an inbox; the mean itself is made elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "worker/lane.h"
#include "worker/message.h"

namespace leeway {

class RoundOwner {
 public:
  static constexpr int64_t kRememberedRounds = 64;  // whose answers can be asked for again

  explicit RoundOwner(const LanePlan& plan);

  // A contribution, a deadline, or somebody who has missed an answer.
  void deliver(Message message);

  struct ChunkId {
    int64_t round = 0;
    int64_t chunk = 0;
    auto operator<=>(const ChunkId&) const = default;
  };
  // The oldest chunk that can be closed: everybody has sent it, or has gone on to later rounds, or
  // its deadline has come.
  std::optional<ChunkId> to_reduce() const;
  // One whose first part has arrived and whose deadline nobody has asked for.
  std::optional<ChunkId> to_await() const;
  struct Repeat {
    ChunkId id;
    ReplicaId replica;
    bool operator==(const Repeat&) const = default;
  };
  std::optional<Repeat> to_repeat() const;

  ReplicaSet contributors(const ChunkId& id) const { return chunks_.at(id).weighted; }
  // Whether these have sent their parts, and the parts, in ascending order.
  bool has(const ChunkId& id, const ReplicaSet& replicas) const;
  std::vector<at::Tensor> contributions(const ChunkId& id, const ReplicaSet& replicas) const;

  void awaits(const ChunkId& id) { chunks_.at(id).awaited = true; }
  // The mean is of `replicas`; the answer is kept for who asks again.
  void reduced(const ChunkId& id, const ReplicaSet& replicas, const at::Tensor& answer);
  struct Answer {
    ReplicaSet replicas;
    at::Tensor payload;
  };
  // Null: not closed, or too long ago.
  const Answer* answer(const ChunkId& id) const;
  void repeated(const ChunkId& id, ReplicaId replica);
  // Nothing more is taken of it: it is answered, or too long ago.
  bool closed(const ChunkId& id) const;

  int64_t late() const { return late_; }        // parts that came after their chunk was closed
  int64_t missing() const { return missing_; }  // parts that were not there when it was
  size_t open_count() const { return chunks_.size(); }

 private:
  struct Chunk {
    ReplicaSet arrived;
    ReplicaSet weighted;                  // those that count
    std::map<int64_t, at::Tensor> parts;  // by replica
    bool awaited = false;
    bool expired = false;
  };
  bool closable(const ChunkId& id, const Chunk& chunk) const;
  int64_t newest_over() const;

  LanePlan plan_;
  std::map<ChunkId, Chunk> chunks_;
  std::vector<int64_t> newest_from_;   // round, by replica; -1: nothing yet
  std::map<ChunkId, Answer> answers_;  // of the last rounds
  int64_t newest_closed_ = -1;
  std::vector<Repeat> asked_;
  int64_t late_ = 0;
  int64_t missing_ = 0;
};

}  // namespace leeway
