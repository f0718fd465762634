// A worker's part in one common model (docs/averaging.md, `lowbit`). Each chunk has two sides: the
// owner's, which numbers the answers, and the member's, which applies them in that order. This
// decides what is due, files what arrives, and says what to send; compute/ has the arithmetic.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/stage_compute.h"
#include "worker/boundary.h"
#include "worker/common_member.h"
#include "worker/common_owner.h"
#include "worker/deadline.h"
#include "worker/outbox.h"
#include "worker/outcome.h"
#include "worker/run_plan.h"

namespace leeway {

class CommonModel {
 public:
  // The plan must outlive this object. `compute` null: nothing is computed.
  CommonModel(WorkerId id, const RunPlan& plan, size_t lane, StageCompute* compute);

  // Why a message about a chunk that there is cannot be taken; empty: it can.
  std::string_view check(const Message& message) const;
  void deliver(Message message);

  // An owner's duties, which others wait for.
  std::optional<Work> duty(int64_t updates) const;
  // Merges that are due, then a contribution; after the last one of the run, the wait until those
  // of all members are merged.
  Turn turn(const Boundary& boundary) const;

  void began(const Work& work);
  void run(const Work& work, Outcome& outcome);
  void finish(const Work& work, const Outcome& outcome, const FleetPace& pace, Outbox& outbox,
              std::vector<Message>& sent);

  // A new table, in run() and in finish(). `have`: answers of each chunk that the worker had by
  // then; in a replay, where answers come earlier, the others are dropped.
  void run_adoption(const Membership& table);
  void finish_adoption(const Membership& table, const std::vector<int64_t>& have,
                       std::vector<Message>& sent);
  std::vector<int64_t> have() const;
  // Its replica goes on after `updates` updates, with the model as it is there.
  void restart(const Membership& table, int64_t updates, const std::vector<ChunkPosition>& chunks,
               std::vector<Message>& sent);
  // A replay's next session: nobody has ended.
  void begin_session();

  bool can_repeat(const Work& work, bool at_boundary, bool inside) const;
  int64_t contributions() const { return member_.next_number() - 1; }
  int64_t numbers_max() const;                   // no contribution or answer has a larger number
  std::vector<ChunkPosition> positions() const;  // of what was applied, by chunk
  bool can_be(const std::vector<ChunkPosition>& positions) const;
  // Contributions of replicas whose chunk was found to be different, once.
  std::vector<Message> take_different() { return std::exchange(different_, {}); }
  const LanePlan& plan() const { return lane_; }
  const Message* answer_of(const Work& merge) const {
    return member_.log(merge.chunk).next(merge.index, merge.whole);
  }
  void add_to(RoundCounts& counts) const;
  void add_to(Held& held) const;

 private:
  // Somebody lacks answers from this number on, up to the other one.
  struct Ask {
    ReplicaId replica;
    int64_t chunk = 0;
    int64_t number = 0;
    int64_t last = INT64_MAX;
  };
  bool are_counts(const Message& answer) const;
  void compare(const Message& contribution);
  void file(Message message);
  // By chunk: whether its part of the next contribution is sent; and which one, not answered yet,
  // is sent again. 0: none.
  std::vector<bool> may_send() const;
  std::vector<int64_t> sends_again(int64_t number) const;
  std::vector<int64_t> under_way() const;
  bool takes_for_lost() const;
  void run_merge(const Work& work, Outcome& outcome);
  void tell_positions(std::vector<Message>& sent);
  ReplicaId owner(int64_t chunk, const Membership& table) const;
  std::vector<int64_t> moved(const Membership& after) const;
  bool is_last(int64_t updates) const { return updates == plan_.run_updates; }
  bool asks(int64_t chunk) const;
  Work work(WorkKind kind, int64_t updates, int64_t index, int64_t chunk) const;
  Message message(MessageKind kind, const Work& work, ReplicaId to,
                  const at::Tensor& payload) const;
  Message contribution(const Work& work) const;
  int64_t bytes_on_the_way(int64_t chunk, const at::Tensor& payload) const;
  void send_part(const Work& work, int64_t chunk, const at::Tensor& payload, bool counts,
                 const FleetPace& pace, std::vector<Message>& sent);
  int64_t chunks() const { return lane_.chunks(id_.stage); }
  std::optional<ReplicaId> has_more(int64_t chunk) const;
  void ask_for_missing(int64_t chunk, int64_t now, std::vector<Message>& sent);
  void post(Message message, std::vector<Message>& sent);

  void finish_work(const Work& work, const Outcome& outcome, const FleetPace& pace, Outbox& outbox,
                   std::vector<Message>& sent);
  void finish_contribution(const Work& work, const Outcome& outcome, const FleetPace& pace,
                           Outbox& outbox, std::vector<Message>& sent);
  void finish_nudge(const Work& work, const Outcome& outcome, const FleetPace& pace, Outbox& outbox,
                    std::vector<Message>& sent);
  void remind_of_the_end(Outbox& outbox);
  void finish_reduction(const Work& work, const Outcome& outcome, std::vector<Message>& sent);
  bool gives_whole(const Work& repeat) const;
  Message whole_chunk(const Work& repeat, const at::Tensor& payload) const;
  void finish_repetition(const Work& work, const Outcome& outcome, std::vector<Message>& sent);
  void finish_wait(const Work& work, const FleetPace& pace, Outbox& outbox,
                   std::vector<Message>& sent);

  // Numbers of answers begin at 1. These are none: time to look at what has not been answered, the
  // chunk as it is, for one that has another, and the question how far a member is.
  static constexpr int64_t kNudge = 0;
  static constexpr int64_t kMends = 0;
  static constexpr int64_t kWhere = 0;
  static constexpr int64_t kNudgesMax = 10;  // seconds
  // Each incarnation of a replica has numbers of its own: more than it makes at the end of a run.
  static constexpr int64_t kNumbersApart = 1024;
  static constexpr int64_t kAskAfter = 16;  // contributions, at most

  WorkerId id_;
  const RunPlan& plan_;
  LanePlan lane_;
  StageCompute* compute_;
  int64_t begun_;  // numbers that earlier sessions have used
  Membership table_;
  CommonMember member_;
  std::vector<CommonOwner> owners_;  // by chunk
  std::deque<Ask> asks_;             // of others
  // By chunk: the answer that it has asked for, its contributions by then, and after how many more
  // it asks again.
  struct Asked {
    int64_t number = 0;
    int64_t at = 0;
    int64_t wait = 2;
  };
  std::vector<Asked> asked_;
  // The chunk that is worked on, until finish(): answers about it wait.
  std::optional<int64_t> busy_;
  std::vector<Message> meanwhile_;
  bool reminded_ = false;  // at the end of the session: it will be nudged
  bool nudged_ = false;    // something may have been lost
  bool tells_ = false;     // an owner asks where this worker is
  int64_t nudges_ = 0;
  std::map<std::pair<int64_t, ReplicaId>, int64_t> mended_;  // chunk, replica: up to which answer
  std::vector<Message> different_;
  int64_t differed_ = 0;
  int64_t taken_over_ = 0;  // chunks: what their owners had left over is lost
};

}  // namespace leeway
