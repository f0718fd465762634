// What one chunk of the common model has become: answers with numbers without gaps, as one worker
// knows them. All members apply the same answers in the same order, so the model has the same bits
// on all of them; a chain of hashes shows it. An answer names the contributions that are in it, so
// everything counts once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "worker/message.h"

namespace leeway {

class ChunkLog {
 public:
  // Answers that every member keeps for those that lack them, at most.
  static constexpr int64_t kKept = CountedParts::kKept;
  // Their bytes, at most: those of the chunk, which is less to send to whoever lacks more. But at
  // least a few answers' (one that was lost is asked for a few later); with a fixed lag, all that
  // one can lack which is on time, since the chunk is merged when it comes.
  static double worth_keeping(double chunk_bytes, double answer_bytes, std::optional<int64_t> lag);

  struct Limits {
    int64_t kept_bytes = INT64_MAX;  // of answers that were applied
    int64_t waiting = 256;           // others, for a worker that stands still
    int64_t bytes = INT64_MAX;       // of both; whoever lacks more than that gets the chunk
    bool keeps_all = false;          // a replay: it was the run that could not take every message
  };
  // Numbers begin at 1.
  ChunkLog() : ChunkLog(ChunkPosition(), Limits()) {}
  ChunkLog(ChunkPosition begin, const Limits& limits);

  int64_t applied() const { return position_.answer; }
  int64_t received() const { return received_; }  // without gaps
  // A later answer has come, so the one after received() was lost.
  bool has_gap() const { return heard_of_ > received_; }
  // The last number that the gap has, if one after it has come; otherwise 0.
  int64_t gap_end() const { return beyond_.empty() ? 0 : beyond_.begin()->first - 1; }

  // Whether one more answer can wait here; one always can.
  bool has_room() const;
  // Files an answer; one that is there already, or that there is no room for, is dropped.
  void deliver(Message answer);
  // The chunk has another owner: what came after a gap is void, and so is, in a replay, what came
  // before it had come in the run.
  void cut(int64_t received);
  // The answer to apply next, or the whole chunk as a later one made it; null: it has not come.
  const Message* next() const;
  // The same by its name: the answer of this number, or the whole chunk after it.
  const Message* next(int64_t number, bool whole) const;
  // `answer`: from next(). `hash`: of its payload, and of the chunk where that is checked.
  void apply(const Message& answer, uint64_t hash = 0);
  // Null: it is not kept any more, or has not come.
  const Message* find(int64_t number) const;

  // What was applied.
  const ChunkPosition& position() const { return position_; }
  // The chain as it was after an answer; none: that is too long ago, or has not come.
  std::optional<uint64_t> chain_at(int64_t number) const;
  int64_t since() const { return since_; }            // of the newest that was applied
  const ReplicaSet& ended() const { return ended_; }  // likewise
  // The session begins anew: nobody has ended.
  void begin_session() { ended_ = {}; }

  int64_t kept() const { return std::ssize(answers_) - (received_ - applied()); }
  int64_t waiting() const { return received_ - applied() + std::ssize(beyond_); }

 private:
  bool takes(const Message& whole) const;
  void deliver_whole(Message whole);
  void apply_whole(int64_t number);
  void close_gap();
  void forget_old();
  void count_bytes();

  ChunkPosition position_;
  Limits limits_;
  int64_t received_;
  int64_t heard_of_;  // the newest that has come, if there was no room for it either
  std::map<int64_t, Message> answers_;  // up to received_
  std::map<int64_t, Message> beyond_;   // after a gap
  std::map<int64_t, Message> wholes_;   // one, but for a replay
  int64_t kept_bytes_ = 0;              // of answers that were applied, and
  int64_t waiting_bytes_ = 0;           // of those that were not
  std::map<int64_t, uint64_t> chains_;
  int64_t since_ = 0;
  ReplicaSet ended_;
};

// Whether an answer has this contribution in it.
bool has_part(const Message& answer, const PartId& part);
// The newest number of this replica in it; 0: none.
int64_t newest_part(const Message& answer, ReplicaId replica);

}  // namespace leeway
