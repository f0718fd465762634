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
#include <utility>
#include <vector>

#include "pipeline/schedule.h"
#include "worker/evaluation_queue.h"
#include "worker/outbox.h"
#include "worker/run_plan.h"
#include "worker/stage_numbers.h"

namespace leeway {

class Worker {
 public:
  // `numbers` null: the worker goes through all the motions and computes nothing. The plan
  // outlives the worker.
  Worker(WorkerId id, const RunPlan& plan, std::unique_ptr<StageNumbers> numbers);

  // A sitting that begins with an evaluation that is due: of the weights as they are now.
  void evaluate_first();

  void deliver(Message message);
  std::optional<Work> next() const;
  void run(const Work& work);
  void finish(const Work& work, const WorkTimes& times, Outbox& outbox, Books& books);

  // Nothing is left to do in this sitting.
  bool done() const;

  WorkerId id() const { return id_; }
  const Counts& counts() const { return counts_; }
  const Schedule& schedule() const { return schedule_; }
  StageNumbers* numbers() const { return numbers_.get(); }

 private:
  bool is_first() const { return id_.stage.value == 0; }
  bool is_last() const { return id_.stage.value == plan_.shape.stages - 1; }
  bool sums_norms() const { return plan_.shape.synchronous() && plan_.shape.stages > 1; }
  UpdateId flush() const { return plan_.next_flush(counts_.updates, last_update_); }
  bool save_due() const;
  bool norms_arrived() const;
  bool evaluation_arrived() const;

  Work training(WorkKind kind, int64_t microbatch) const;
  Work boundary(WorkKind kind, int64_t update) const;
  Work evaluation() const;

  std::optional<double> total_norm() const;
  void finish_forward(const Work& work);
  void finish_backward(const Work& work);
  void finish_update(const Work& work, Books& books);
  void finish_evaluation(const Work& work, Books& books);
  void stop_at_next_flush();
  Message message(MessageKind kind, int64_t to_stage, int64_t index) const;
  void post(Message message);

  WorkerId id_;
  const RunPlan& plan_;
  Schedule schedule_;
  std::unique_ptr<StageNumbers> numbers_;

  Counts counts_;
  std::deque<int64_t> versions_;  // updates that the weights of each microbatch in flight have had
  int64_t last_update_;           // moves closer when the run is stopped
  int64_t saved_update_;          // the newest state that is on disk, or on its way there
  bool stop_wanted_ = false;      // stage 0: heard of it, will name the flush point
  bool stopping_ = false;         // the flush point is named
  bool diverged_ = false;
  EvaluationQueue evaluations_;

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
  std::vector<Message> outgoing_;  // of the work that is being finished
};

}  // namespace leeway
