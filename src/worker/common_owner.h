// The owner of a chunk of the common model is its sequencer: it adds what has come, gives the sum
// the next number, and tells all members. Counters and an inbox; the arithmetic is elsewhere.
//
// A table may name another owner. It waits until every member has said how far it is, gets what it
// lacks from the one that has most, and goes on with the next number. What members had sent to the
// owner before is lost, and its residual with it: members know that from the table that answers
// name in `since`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "worker/chunk_log.h"
#include "worker/held.h"
#include "worker/lane.h"
#include "worker/membership.h"

namespace leeway {

class CommonOwner {
 public:
  CommonOwner(const LanePlan& plan, ReplicaId replica, int64_t chunk, const Membership& table);

  // A contribution or a deadline.
  void deliver(Message message);
  // `moved`: this chunk had another owner, or this one has restarted.
  void adopt(const Membership& table, bool moved);
  void begin_session();

  bool owns() const { return plan_.owner(0, chunk_, table_) == replica_ && table_.has(replica_); }
  int64_t since() const { return since_; }
  // While it takes over: the member that has most answers, if this one has fewer, and how many.
  std::optional<std::pair<ReplicaId, int64_t>> ahead(int64_t received) const;

  // While it takes over: members that have not said where they are.
  std::vector<ReplicaId> unheard_of() const;

  // Once it has taken over: members that lack answers, and from which number on.
  bool brings_up(int64_t received) const;
  std::vector<std::pair<ReplicaId, int64_t>> behind(int64_t received) const;
  void brought_up() { brought_up_ = since_; }

  // Whether the next answer can be made, by one that has all answers up to `received`: everybody
  // has contributed, is absent or has ended, or the deadline has passed. Two have nothing in them:
  // the first of an owner that has taken over, by which members know what is lost, and the last,
  // which says that all have ended.
  bool closable(int64_t received) const;
  bool await_due() const { return plan_.deadline && owns() && !parts_.empty() && !awaited_; }
  void awaits() { awaited_ = true; }

  // What the next answer has in it, ascending: all that has come, or with a fixed lag the parts of
  // one number.
  std::vector<PartId> next_parts() const;
  bool has(const std::vector<PartId>& parts) const;
  std::vector<at::Tensor> payloads(const std::vector<PartId>& parts) const;
  int64_t stretch(const std::vector<PartId>& parts) const;
  int64_t largest(const std::vector<PartId>& parts) const;  // in bytes
  ReplicaSet ended() const;                                 // of whom nothing is left
  void closed(const std::vector<PartId>& parts);

  int64_t members() const { return table_.members().size(); }
  ReplicaSet absent() const { return absent_; }
  int64_t missing() const { return missing_; }
  void add_to(Held& held) const { held.open_chunks += std::ssize(parts_); }

 private:
  struct Part {
    at::Tensor payload;
    int64_t table = 0;  // by which it was first sent
    int64_t stretch = 1;
    int64_t bytes = 0;
  };
  // Where a replica said that it is; it may have heard of a table before this one.
  struct Position {
    int64_t table = -1;
    int64_t have = 0;    // answers, without gaps
    int64_t number = 0;  // its newest contribution
    bool ended = false;
  };
  // Null: nothing since it took over.
  const Position* position(ReplicaId replica) const;
  bool end_is_due() const {
    return !end_is_told_ && parts_.empty() && ended().has_all(table_.members());
  }
  int64_t oldest_number() const;
  void expire();

  static constexpr int64_t kWaitingMax = 256;  // parts of one replica

  LanePlan plan_;
  ReplicaId replica_;
  int64_t chunk_;
  Membership table_;
  int64_t since_;
  int64_t brought_up_ = 0;           // since when everybody has what anybody has
  std::vector<Position> positions_;  // by replica
  std::map<PartId, Part> parts_;     // that are in no answer yet
  std::vector<int64_t> newest_;      // by replica: number that was taken, or passed
  bool end_is_told_ = false;
  int64_t told_since_ = 0;  // members know since when it is the owner
  bool awaited_ = false;
  bool expired_ = false;
  // In the order that parts came: when the first one of the next answer did, and the newest of each
  // replica.
  int64_t opened_at_ = 0;
  std::vector<int64_t> heard_at_;
  ReplicaSet absent_;  // a deadline has passed without them
  int64_t arrivals_ = 0;
  int64_t missing_ = 0;
};

}  // namespace leeway
