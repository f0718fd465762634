// One stage of one replica as a passive state machine with four verbs. It never waits, reads no
// clock and owns no thread: a driver delivers what has arrived, asks what is next, lets it run, and
// finishes it. The same worker runs on threads, in virtual time, and one day over a network.
//
//   deliver   may file a message              may not decide, compute, send
//   next      may look, and name the one thing to do now   may not change anything
//   run       may do the numbers on its own tensors        may not send
//   finish    may count, send and report      may not compute
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compute/stage_compute.h"
#include "pipeline/schedule.h"
#include "worker/evaluation_queue.h"
#include "worker/outbox.h"
#include "worker/round_member.h"
#include "worker/round_owner.h"
#include "worker/run_plan.h"

namespace leeway {

class Worker {
 public:
  // `numbers` null: the worker goes through all the motions and computes nothing. The plan
  // outlives the worker.
  Worker(WorkerId id, const RunPlan& plan, std::unique_ptr<StageCompute> numbers);

  // A session that begins with an evaluation that is due: of the weights as they are now.
  void evaluate_first();

  void deliver(Message message);
  std::optional<Work> next() const;
  void run(const Work& work);
  void finish(const Work& work, const WorkTimes& times, Outbox& outbox, Recorder& recorder);

  // Nothing is left to do in this session but to answer others, until all are done.
  bool done() const;

  // For a replay, which knows what was done: whether this can be done now. Rounds go by what has
  // arrived, and are done as they were; all the rest must be what is next.
  bool can_repeat(const Work& work) const;
  // Answers to what has been sent are no longer wanted: part of saving, and of every flush point
  // that a checkpoint makes.
  void drop_rounds();

  struct RoundCounts {
    int64_t late = 0;     // parts of others that came after their chunk was closed
    int64_t missing = 0;  // parts that a mean had to do without
    int64_t missed = 0;   // answers that this worker never merged
    int64_t dropped = 0;  // rounds that a flush point cut off
  };
  RoundCounts round_counts() const;

  WorkerId id() const { return id_; }
  const RunPlan& plan() const { return plan_; }
  const Counts& counts() const { return counts_; }
  const Schedule& schedule() const { return schedule_; }
  StageCompute* compute() const { return compute_.get(); }

 private:
  bool is_first() const { return id_.stage.value == 0; }
  bool is_last() const { return id_.stage.value == plan_.shape.stages - 1; }
  bool evaluates_here() const { return id_.replica.value == 0; }
  bool sums_norms() const { return plan_.shape.synchronous() && plan_.shape.stages > 1; }
  UpdateId flush() const { return plan_.next_flush(counts_.updates, last_update_); }
  bool save_due() const;
  bool norms_arrived() const;
  bool evaluation_arrived() const;

  // Due without work: what it needs has not arrived, and nothing else may come before it.
  struct Turn {
    bool due = false;
    std::optional<Work> work = {};
  };
  Turn averaging_turn() const;
  Turn lanes_turn(bool gradients, int64_t update) const;
  std::optional<Work> owed() const;
  std::optional<Work> pipeline_turn() const;

  Work training(WorkKind kind, int64_t microbatch) const;
  Work boundary(WorkKind kind, int64_t update) const;
  Work evaluation() const;
  Work round_work(WorkKind kind, Lane lane, int64_t round, int64_t chunk) const;

  std::optional<double> total_norm() const;
  void finish_forward(const Work& work);
  void finish_backward(const Work& work);
  void finish_update(const Work& work, Recorder& recorder);
  void finish_evaluation(const Work& work, Recorder& recorder);
  void post_norms();
  void hear_of_stop(const Message& message);
  void stop_at_next_flush();
  Message message(MessageKind kind, int64_t to_stage, int64_t index) const;
  void post(Message message);

  // Rounds: worker_rounds.cpp.
  struct LaneSeat {
    LanePlan plan;
    RoundOwner owner;
    RoundMember member;
  };
  const LaneSeat* find_seat(Lane lane) const;  // null: a lane that this run does not have
  const LaneSeat& seat(Lane lane) const;
  LaneSeat& seat(Lane lane);
  bool is_of_this_mesh(const Message& message) const;
  void deliver_round(Message message);
  void run_round(const Work& work);
  void finish_round(const Work& work, Outbox& outbox);
  void finish_contribution(const Work& work, LaneSeat& lane);
  void finish_reduction(const Work& work, LaneSeat& lane);
  void finish_merge(const Work& work, LaneSeat& lane);
  Message round_message(MessageKind kind, const Work& work, ReplicaId to,
                        const at::Tensor& payload) const;
  void post_round(Message message);

  WorkerId id_;
  const RunPlan& plan_;
  Schedule schedule_;
  std::unique_ptr<StageCompute> compute_;

  Counts counts_;
  std::deque<int64_t> versions_;  // updates that the weights of each microbatch in flight have had
  int64_t last_update_;           // moves closer when the run is stopped
  int64_t saved_update_;          // the newest state that is on disk, or on its way there
  bool stop_wanted_ = false;      // stage 0: heard of it, will name the flush point
  std::optional<int64_t> stop_named_;  // another replica has named it
  bool stopping_ = false;              // the flush point is named
  bool diverged_ = false;
  bool at_boundary_ = false;  // after an update, before the next forward or backward
  EvaluationQueue evaluations_;
  std::vector<LaneSeat> lanes_;
  std::optional<int64_t> copy_due_;    // the update whose weights are to be sent for evaluation
  std::set<int64_t> copies_averaged_;  // updates whose evaluation can begin

  // The inbox.
  std::map<int64_t, at::Tensor> activations_;                            // by microbatch
  std::map<int64_t, at::Tensor> gradients_;                              // by microbatch
  std::map<std::pair<int64_t, int64_t>, at::Tensor> evaluation_inputs_;  // by update and batch
  std::map<int64_t, at::Tensor> norms_;        // stage 0: of this update, by stage
  std::map<int64_t, at::Tensor> total_norms_;  // other stages: by update

  // What run() made, for finish() to send or report.
  at::Tensor result_;
  at::Tensor own_norms_;
  std::optional<double> total_norm_;
  std::optional<StageUpdate> updated_;
  std::optional<StageState> state_;
  std::vector<at::Tensor> parts_;  // of a contribution, by chunk
  std::optional<RoundNorms> sizes_;
  std::vector<Message> outgoing_;  // of the work that is being finished
};

}  // namespace leeway
