// One stage of one replica as a passive state machine with four verbs. It never waits, reads no
// clock and owns no thread: a driver delivers what has arrived, asks what is next, lets it run, and
// finishes it. The same worker runs on threads, in virtual time, and one day over a network.
//
//   deliver   may check a message and file or refuse it    may not decide, compute, send
//   next      may look, and name the one thing to do now   may not change anything
//   run       may compute with its own tensors             may not send
//   finish    may count, send and report                   may not compute
//
// Messages are all that it shares with other workers and with the coordinator. None of them is
// trusted, and one that comes twice changes nothing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pipeline/schedule.h"
#include "worker/clip_norms.h"
#include "worker/evaluations.h"
#include "worker/inbox.h"
#include "worker/outbox.h"
#include "worker/outcome.h"
#include "worker/report_queue.h"
#include "worker/requested_saves.h"
#include "worker/rounds.h"
#include "worker/run_plan.h"
#include "worker/session_end.h"
#include "worker/state_transfer.h"

namespace leeway {

// How a worker comes into the run. One that fills a place again is not part of the run at first: it
// says that it is there, gets a state, and goes on when a table has its replica.
struct Entry {
  int64_t incarnation = 0;                           // how often this place was filled before
  std::shared_ptr<const StageState> own_state = {};  // from its own disk; null: it has none
  bool joins() const { return incarnation > 0; }
};

class Worker {
 public:
  // `compute` null: the worker does everything but the arithmetic. The plan must outlive the
  // worker.
  Worker(WorkerId id, const RunPlan& plan, std::unique_ptr<StageCompute> compute,
         const Entry& entry = {});

  // The session begins with an evaluation of the weights as they are now.
  void evaluate_first();

  void deliver(Message message);
  // Why deliver() would not take a message; empty: it would.
  std::string_view check(const Message& message) const;
  std::optional<Work> next() const;
  Outcome run(const Work& work);
  void finish(const Work& named, Outcome outcome, Outbox& outbox, Journal& journal);

  // Work that its device has yet to finish, or whose end it has not looked at: settle() does.
  bool has_late() const { return !late_.empty(); }
  // Tells what has become of work that is done by now.
  void settle(Outbox& outbox, Journal& journal);

  // Nothing is left to do in this session except to answer others until it is over.
  bool done() const;
  // The coordinator has said so: the driver can let go of this worker.
  bool over() const { return over_; }

  // For a replay: whether this recorded work can be done now. A piece of a round only needs its
  // place in an update, and what it uses to have arrived; everything else must be what is next.
  bool can_repeat(const Work& work) const;
  // A replay's flush point, in place of a save.
  void drop_rounds();
  // For a replay of a log that lacks pieces of the pipeline's work: whether the worker has come to
  // where this piece of a round, or this save, was done; the next piece of the pipeline; and if
  // that has to wait, for which stage.
  bool has_come_to(const Work& work) const;
  bool saves_before_duties() const;
  std::optional<Work> pipeline_turn() const;
  std::optional<StageId> waits_for() const;

  WorkerId id() const { return id_; }
  const RunPlan& plan() const { return plan_; }
  const Counts& counts() const { return counts_; }
  const Schedule& schedule() const { return schedule_; }
  StageCompute* compute() const { return compute_.get(); }
  RoundCounts round_counts() const { return rounds_.counts(); }
  const Membership& table() const { return table_; }
  int64_t incarnation() const { return incarnation_; }
  // A message of an earlier epoch or incarnation: dropped without a word.
  bool is_stale(const Message& message) const;
  // Of an epoch of this replica that this worker has yet to hear of: kept until then.
  bool is_early(const Message& message) const;
  int64_t refused() const { return refusals_.total(); }
  // The answer of a common model that this merge applies; null: it is another piece of work.
  const Message* answer_of(const Work& merge) const { return rounds_.answer_of(merge); }
  Held held() const;

 private:
  bool is_first() const { return id_.stage.value == 0; }
  bool is_last() const { return id_.stage.value == plan_.shape.stages - 1; }
  bool takes_part() const { return !diverged_ && !receiver_ && table_.has(id_.replica); }
  UpdateId flush() const;
  bool flushes_here() const;
  bool trained() const { return counts_.updates == end_.last_update(); }
  bool gives_up_evaluations() const;
  bool save_due() const;
  bool evaluation_arrived() const;
  bool report_due() const;
  bool names_end_now() const;
  bool names_last_state_now() const;
  std::optional<int64_t> impossible_evaluation() const;

  std::string_view check_sender(const Message& message) const;
  std::string_view check_pipeline(const Message& message) const;
  std::string_view check_evaluation(const Message& message) const;
  std::string_view check_transfer(const Message& message) const;
  void file(Message message);
  void file_order(const Message& message);
  void want_give_up(int64_t update);

  Turn boundary_turn() const;
  Work training(WorkKind kind, int64_t microbatch) const;
  Work boundary(WorkKind kind, int64_t update) const;
  Work evaluation() const;
  Work adoption() const;
  std::optional<Work> transfer() const;
  Work reporting() const;

  void run_backward(const Work& work, Outcome& outcome);
  void run_update(const Work& work, Outcome& outcome);
  void name_last_state();
  void tell_what_lasts();
  void run_save(Outcome& outcome);
  void describe_save(StageState& state) const;
  void run_evaluation(const Work& work, Outcome& outcome);
  void run_adoption(const Work& work, Outcome& outcome);
  void run_transfer(Outcome& outcome);

  void log_refusals(Journal& journal);
  void log_late(Journal& journal, bool wait);
  void note_update(const StageUpdate& update);
  void send_all(Outbox& outbox, Journal& journal);
  Work without_refused(Work work, const Outcome& outcome);
  void refuse_late(const LateWork& late);
  void refuse_part(ReplicaId replica);
  void finish_forward(const Work& work, const Outcome& outcome);
  void finish_backward(const Work& work, Outcome& outcome);
  void finish_update(const Work& work, Outcome& outcome);
  void finish_save(Outcome& outcome);
  void begin_evaluation();
  void finish_evaluation(const Work& work, const Outcome& outcome);
  void finish_round(const Work& work, Outcome& outcome, Outbox& outbox);
  void finish_adoption(const Work& work, Outcome& outcome);
  void restart(const Membership::Restart& restart);
  Membership table_of(const Work& adoption) const;
  bool restarts_by(const Membership& table) const;
  void finish_transfer(const Work& work, const Outcome& outcome, Outbox& outbox);
  void ask_for_state(Outbox& outbox);
  void send_state(const Outcome& outcome);
  void finish_report(const Work& work, const Outcome& outcome, Outbox& outbox);
  void give_up_evaluations(int64_t update);
  void send_norms_if_complete(Outcome& outcome);
  void stop_at_next_flush();
  void name_requested_saves();
  int64_t next_possible_flush(std::optional<int64_t> named) const;
  void report(Report report) { to_report_.push_back(std::move(report)); }
  Present presence() const;
  void send_reports();
  void send_kept(size_t at);

  Message message(MessageKind kind, int64_t to_stage, int64_t index) const;
  Message activation_message(MessageKind kind, int64_t to_stage, int64_t index,
                             const at::Tensor& payload) const;
  Envelope envelope() const;

  WorkerId id_;
  const RunPlan& plan_;
  int64_t incarnation_;
  Schedule schedule_;
  int64_t warmup_before_;  // of the stage before this one
  std::unique_ptr<StageCompute> compute_;

  Counts counts_;
  std::deque<int64_t> versions_;  // updates that the weights of each microbatch in flight have had
  int64_t saved_update_;          // the newest state that is on disk, or on its way there
  std::shared_ptr<const StageState> to_store_;  // from the work that is being finished
  std::shared_ptr<const StageState> unstored_;  // the newest, until it is on disk
  bool storing_ = false;                        // it is on its way there
  std::vector<ShardSaved> stored_;              // what became of states, not reported yet
  std::optional<ShardSaved> newest_stored_;
  bool last_is_named_ = true;  // of what was saved, what the session ends with is known as that
  bool diverged_ = false;
  std::deque<LateWork> late_;  // in the order in which it was begun
  bool at_boundary_ = false;   // after an update, before the next forward or backward
  bool inside_ = false;        // after a backward that does not complete an update, likewise

  Inbox inbox_;
  SessionEnd end_;
  RequestedSaves requested_saves_;
  ClipNorms clip_norms_;
  Evaluations evaluations_;
  Rounds rounds_;
  Membership table_;
  // Delivered, not adopted yet, by number: another one may come while the newest is adopted.
  std::map<int64_t, Membership> next_tables_;
  int64_t newest_update_ = 0;              // of any worker, as the coordinator last said
  std::deque<Message> early_;              // of an epoch that it has yet to hear of
  std::optional<StateReceiver> receiver_;  // until its replica is part of the run
  StateDonor donor_;
  std::vector<int64_t> state_rounds_;        // by lane, of the state that it got
  std::vector<ChunkPosition> state_chunks_;  // of the common model in it
  bool announce_due_ = false;                // it has to say that it is there
  std::optional<int64_t> give_up_wanted_;    // evaluations up to this update
  TallyKeeper tally_;
  std::vector<Report> to_report_;  // from the work that is being finished
  ReportQueue reports_;
  bool told_done_ = false;      // since it was last reminded
  bool has_said_done_ = false;  // ever
  Finished finished_;           // what it said then
  bool tell_again_ = false;
  bool tell_all_ = false;  // to a coordinator that may know nothing
  bool over_ = false;
  RefusedMessages refusals_;
  std::vector<Message> outgoing_;  // from the work that is being finished
  std::vector<Message> outgoing_reports_;
};

}  // namespace leeway
