// How a worker that fills an empty place gets its state from one that is there: the same stage of
// the member that has been there longest. It asks for one part after another, at a limited pace, so
// the donor goes on training; a part that does not come is asked for again. All parts are of one
// snapshot. If the donor leaves, or has made a newer snapshot, it begins again.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "compute/stage_reports.h"
#include "worker/message.h"

namespace leeway {

inline constexpr int64_t kStatePartBytes = int64_t{1} << 20;

// A state as bytes; what is read back is checked like any other input.
at::Tensor pack_state(const StageState& state);
Result<StageState> unpack_state(const at::Tensor& bytes);

// Part `part` of some bytes, with a hash before it; and without it, undefined if it does not fit.
at::Tensor state_part(const at::Tensor& bytes, int64_t part);
at::Tensor part_without_hash(const at::Tensor& part);
inline int64_t state_parts(int64_t bytes) {
  return std::max<int64_t>(1, (bytes + kStatePartBytes - 1) / kStatePartBytes);
}

class StateDonor {
 public:
  // The newest question of each that joins counts.
  void ask(ReplicaId from, int64_t update, int64_t part) { asked_[from] = {update, part}; }
  bool is_asked() const { return !asked_.empty(); }
  bool has_snapshot() const { return snapshot_.has_value(); }
  // Whether the next answer is to be of a new snapshot: there is none, or only one that is old, and
  // the one that asks has yet to begin.
  bool wants_snapshot(int64_t updates) const;
  // `bytes` undefined, for a worker without compute: only the size.
  void take_snapshot(ShardSaved what, at::Tensor bytes, int64_t size);

  struct Answer {
    ReplicaId to;
    std::shared_ptr<const Report> what;
    int64_t update = 0;
    int64_t part = 0;
    int64_t parts = 0;
    int64_t size = 0;  // in bytes
    at::Tensor bytes = {};
  };
  int64_t part() const;  // that is sent next
  Answer take_answer();
  void forget() { asked_.clear(), snapshot_.reset(); }  // nobody joins any more

 private:
  struct Question {
    int64_t update = 0;  // 0: any
    int64_t part = 0;
  };
  struct Snapshot {
    std::shared_ptr<const Report> what;  // a ShardSaved
    int64_t update = 0;
    at::Tensor bytes;
    int64_t size = 0;
  };
  static constexpr int64_t kFresh = 16;  // updates
  std::map<ReplicaId, Question> asked_;
  std::optional<Snapshot> snapshot_;
};

class StateReceiver {
 public:
  // `own`: what this worker has on its own disk; null: nothing. It is as good as another's if it is
  // at most `fresh` updates old.
  StateReceiver(std::shared_ptr<const StageState> own, int64_t fresh)
      : own_(std::move(own)), fresh_(fresh) {}

  // By a new table: who to ask. `newest`: update of any member.
  void adopt(const Membership& table, int64_t newest);
  void deliver(const Message& part);
  void reminded(int64_t index);

  bool loaded() const { return loaded_; }
  // The state is complete: take it over.
  bool can_load() const { return !loaded_ && (uses_own_ || complete()); }
  // Whether to ask for a part now, of whom, and which.
  bool ask_due() const;
  ReplicaId donor() const { return *donor_; }
  int64_t update() const { return update_; }
  int64_t part() const { return static_cast<int64_t>(parts_.size()); }
  // The question is sent. Returns the index of two reminders: index for when the next part may be
  // asked for, index + 1 for when this one is asked for again.
  int64_t asked();

  // Another worker's state, or this one's own; an error is the donor's.
  Result<StageState> take_state();
  const std::vector<int64_t>& rounds() const { return uses_own_ ? own_->rounds : rounds_; }
  const std::vector<ChunkPosition>& chunks() const { return chunks_; }
  void set_loaded(bool well);

 private:
  bool complete() const { return count_ > 0 && part() == count_; }
  void begin_again();

  std::shared_ptr<const StageState> own_;
  int64_t fresh_ = 0;
  bool uses_own_ = false;
  bool loaded_ = false;
  std::optional<ReplicaId> donor_;
  int64_t donor_epoch_ = 0;
  int64_t update_ = 0;  // of the snapshot; 0: not known yet
  int64_t count_ = 0;   // parts of the snapshot; 0: not known yet
  std::vector<at::Tensor> parts_;
  std::vector<int64_t> rounds_;        // by lane, as the donor had begun
  std::vector<ChunkPosition> chunks_;  // likewise, of the common model
  int64_t asks_ = 0;
  bool waits_ = false;  // for the part that it asked for
  bool paced_ = true;   // the next part may be asked for
  bool again_ = false;  // it has waited for long
};

}  // namespace leeway
