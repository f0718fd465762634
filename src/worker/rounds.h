// A worker's part in the rounds of all lanes. A common model is apart. Each other lane has two
// sides: the owner's (others' parts come in, a mean goes out) and the member's (own parts go out,
// means come in and are merged). This decides what is due, files what arrives, and says what to
// send; compute/ has the arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/stage_compute.h"
#include "worker/boundary.h"
#include "worker/common_model.h"
#include "worker/deadline.h"
#include "worker/outbox.h"
#include "worker/outcome.h"
#include "worker/round_member.h"
#include "worker/round_owner.h"
#include "worker/run_plan.h"
#include "worker/update_time.h"

namespace leeway {

class Rounds {
 public:
  // The plan must outlive this object. `compute` null: nothing is computed, and payloads are not
  // checked.
  Rounds(WorkerId id, const RunPlan& plan, StageCompute* compute);

  // Why a message about a round cannot be taken; empty: it can. Messages are not trusted.
  std::string_view check(const Message& message) const;
  // A message that check() has passed.
  void deliver(Message message);
  // A message that check() has not passed. A round far ahead of all others is believed once it is
  // heard of twice: a replica that was away must catch up, and one bad number must not move it.
  void refuse(const Message& message);

  // An owner's duties, which others wait for. `updates`: how many this worker has done.
  std::optional<Work> duty(int64_t updates) const;

  // Merges that are due, then contributions to new rounds.
  Turn turn(const Boundary& boundary) const;
  // The contribution that sends this worker's weights to be validated.
  Work copy_for_evaluation(int64_t update) const;

  // Every piece of the worker's work, for the time between its updates.
  void note_time(WorkKind kind, const WorkTimes& times) { update_time_.finished(kind, times); }

  // Before run(), and with nothing to compute as well.
  void began(const Work& work) {
    if (is_of_round(work.kind) && is_common(work.lane)) common_->began(work);
  }
  void run(const Work& work, Outcome& outcome);
  // Appends what is to be sent. A worker's own chunk does not travel: it is delivered here.
  void finish(const Work& work, const Outcome& outcome, Outbox& outbox, std::vector<Message>& sent);

  // A new table of members. In run(): forgets what will not be answered; in finish(): tells the new
  // owners not to wait for this worker's part of rounds that it has begun.
  // `have`: as in CommonModel.
  void run_adoption(const Membership& table);
  void finish_adoption(const Membership& table, const std::vector<int64_t>& have,
                       std::optional<int64_t> copied_elsewhere, std::vector<Message>& sent);
  std::vector<int64_t> have() const { return common_ ? common_->have() : std::vector<int64_t>(); }
  // This worker's replica goes on after `updates` updates: nothing is in flight, and it follows
  // until it is one of the fleet again; with a common model it is one at once. `rounds`: by lane,
  // where the state that it has was, and `chunks`, where the common model.
  void restart(const Membership& table, int64_t updates, const std::vector<int64_t>& rounds,
               const std::vector<ChunkPosition>& chunks, std::vector<Message>& sent);
  ReplicaId evaluator() const;  // where copies for evaluation go
  // Evaluations up to this update are not made here.
  void give_up_evaluations(int64_t update) { seat(Lane::kEvaluation).owner.give_up(update); }
  // Stage 0 averages these replicas for the evaluation of this update; whether this stage cannot.
  void expect_evaluation(int64_t update, const ReplicaSet& replicas) {
    seat(Lane::kEvaluation).owner.expect(update, replicas);
  }
  bool evaluation_lacks_copies(int64_t update) const {
    return seat(Lane::kEvaluation).owner.lacks_expected(update);
  }

  // Whether this merge is the last of a round of gradients.
  bool completes_gradients(const Work& work) const;

  // Whether this piece of a round averages gradients, before the update that uses them.
  bool is_before_update(const Work& work) const;
  // Whether a recorded piece of work can be done now: contributions only at the boundary of an
  // update, merges there or inside one, those of gradients only before one.
  struct Moment {
    bool update_due = false;
    bool at_boundary = false;
    bool inside = false;
  };
  bool can_repeat(const Work& work, const Moment& now) const;

  // Call before a save, so that rounds in flight do not count in the saved state.
  void forget_in_compute();
  // Call after a save: answers to those rounds are no longer wanted.
  void flush();
  // A replay's flush point, which a new session may have begun with.
  void begin_session() {
    if (common_) common_->begin_session();
  }
  std::vector<int64_t> rounds_begun() const;  // by lane, for a checkpoint
  bool has_common() const { return common_.has_value(); }
  std::vector<ChunkPosition> positions() const {
    return common_ ? common_->positions() : std::vector<ChunkPosition>();
  }
  // Whether another worker of this stage can have these.
  bool can_be(const std::vector<ChunkPosition>& positions) const {
    return common_ ? common_->can_be(positions) : positions.empty();
  }
  // Contributions of replicas that have another model than this one, once.
  std::vector<Message> take_different();

  // Null: not a merge of a common model.
  const Message* answer_of(const Work& merge) const {
    const bool applies = is_common(merge.lane) && merge.kind == WorkKind::kMerge;
    return applies ? common_->answer_of(merge) : nullptr;
  }

  RoundCounts counts() const;
  void add_to(Held& held) const;

 private:
  struct Seat {
    LanePlan plan;
    RoundOwner owner;
    RoundMember member;
    std::optional<std::pair<ReplicaId, int64_t>> jump =
        {};  // heard of once: from whom, which round
  };
  const Seat* find(Lane lane) const;  // null: a lane that this run does not have
  const Seat& seat(Lane lane) const;
  Seat& seat(Lane lane);
  std::string_view check_payload(const Message& message) const;
  bool is_far_ahead(const Seat& lane, const Message& message) const;
  int64_t rounds_max(const LanePlan& plan) const;
  void compare_models(const Message& part);
  void run_contribution(const Work& work, const Seat& lane, Outcome& outcome);
  void run_reduction(const Work& work, const Seat& lane, Outcome& outcome);
  void run_merge(const Work& work, const Seat& lane, Outcome& outcome);
  void finish_contribution(const Work& work, const Outcome& outcome, std::vector<Message>& sent);
  void finish_reduction(const Work& work, const Outcome& outcome, std::vector<Message>& sent);
  Message message(MessageKind kind, const Work& work, ReplicaId to,
                  const at::Tensor& payload) const;
  void post(Message message, std::vector<Message>& sent);
  FleetPace pace() const;
  bool is_common(Lane lane) const { return common_ && lane == Lane::kMain; }

  WorkerId id_;
  const RunPlan& plan_;
  StageCompute* compute_;
  Membership table_;
  std::optional<CommonModel> common_;
  std::vector<Seat> seats_;  // the plan's lanes, but for a common model's, then evaluation
  // Where gradients are averaged, replicas have the same weights: by update and replica, hashes of
  // them, of the newest update that is compared.
  std::map<int64_t, std::map<ReplicaId, uint64_t>> model_hashes_;
  std::vector<Message> different_;
  int64_t differed_ = 0;
  UpdateTime update_time_;
  std::vector<Nanos> update_times_;  // by replica, as they were last heard of; zero: not known yet
};

}  // namespace leeway
