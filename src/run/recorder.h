// The recorder of one session: turns the reports of all workers into lines of the event log,
// checkpoints, and what the user sees. What it knows of workers is what they report; as the journal
// of the coordinator's process it only passes lines on to the log.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/held_folder.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "events/event_log.h"
#include "events/traffic.h"
#include "run/checkpoint_writer.h"
#include "run/process_log.h"
#include "run/round_statistics.h"
#include "run/shard_ledger.h"
#include "run/stage_statistics.h"
#include "run/training_observer.h"
#include "worker/outbox.h"
#include "worker/run_plan.h"

namespace leeway {

// Over the replicas, summed in order: always the same bits.
double mean_loss(const std::map<ReplicaId, double>& losses);

// With what was sent in this session.
RunCounters with_bytes(RunCounters counters, const PurposeBytes& sent);
// Of one more update.
void note_loss(RunCounters& counters, double loss);

struct RunRecorderOptions {
  const Recipe& recipe;
  const RunPlan& plan;
  ModelShape shape;
  const HeldFolder& folder;
  const Clock& clock;
  const TrainingObserver& observer;
};

class RunRecorder final : public Recorder {
 public:
  // `valid`: the last evaluations of the previous session.
  RunRecorder(const RunRecorderOptions& options, EventLog log, RunCounters counters,
              NewestEvaluations valid);
  // Before anything else: the session has begun under another coordinator, whose log this is. What
  // that one had heard and not written is not heard again.
  void take_over(int64_t newest_table, int64_t tick);

  void worked(const WorkRecord& record) override { log_.worked(record); }
  void predicted(const Prediction& prediction) override { log_.predicted(prediction); }
  void refused(const RefusedMessage& refusal) override { log_.refused(refusal); }
  int64_t tick() const override { return log_.tick(); }
  void move_tick_to(int64_t tick) override { log_.move_tick_to(tick); }
  void begun(const AskRun& ask) override {
    if (options_.observer.begun) options_.observer.begun(ask);
  }
  void members(const Membership& table) override;
  int64_t newest_table() const override { return newest_table_; }
  int64_t newest_update() const override {
    int64_t newest = counters_.update;
    for (const auto& [worker, update] : newest_) newest = std::max(newest, update);
    return newest;
  }
  // Another session follows where this one ends before the run does; false: the user wants an end.
  void regroups(bool yes) override { goes_on_ = regroups_ = yes; }
  bool goes_on_after_this() const { return goes_on_; }
  // A coordinator that is started again may hear of what was recorded before.
  void tallied(WorkerId worker, const WorkTally& tally) override {
    WorkTally& known = tallies_[worker];
    if (tally.end >= known.end && tally.bytes.total() >= known.bytes.total()) known = tally;
  }
  void updated(const StageUpdate& update) override;
  void evaluated(const StageEvaluation& evaluation) override;
  void saved(const ShardSaved& saved) override;
  // A checkpoint that counts is made of its shards while training goes on.
  std::optional<Chore> take_chore() override;
  void finished(WorkerId worker, const Finished& finished) override;

  void log(Event event) { log_.write(std::move(event)); }
  void flush_log() { log_.flush(); }

  // What every worker that was there to the end has said about itself.
  const std::map<WorkerId, Finished>& finished() const { return finished_; }
  const Membership& table() const { return table_; }
  // A hash of the whole model's weights, as they were last saved in this session.
  std::optional<uint64_t> weights_hash() const { return weights_hash_; }
  // Why the run was abandoned, if it was. After the driver has ended.
  std::optional<Error> failure();
  // As of now, with the whole run's time so far and everything sent.
  RunCounters counters() const { return counters(sent_by_now()); }
  // The newest evaluations, of this session or the previous one.
  const NewestEvaluations& valid() const { return valid_; }
  StageStatistics statistics(StageId stage) const {
    return stage_statistics(options_.plan, tallies_, stage);
  }
  RoundStatistics round_statistics() const {
    return leeway::round_statistics(options_.plan, tallies_);
  }
  // After the driver has ended: writes the checkpoint that is still to be written, if there is one.
  Status save_rest();
  // The states that the session ended with which were given up; none: all are stored.
  const std::optional<Error>& lost_state() const { return lost_state_; }
  // Half a sentence: which checkpoint a run that failed leaves behind.
  std::string what_is_kept() const;
  bool log_is_written() const { return log_.is_written(); }

 private:
  // One worker's part of an update, and what it had done when it had made it.
  struct Part {
    double squared_norm = 0;
    PurposeBytes sent;
    Nanos evaluating;
  };
  // An update that not all stages have made yet.
  struct Pending {
    std::map<WorkerId, Part> parts;  // added up in the order of workers, not of arrival
    std::map<ReplicaId, double> losses;
    double rate_factor = 0;
  };
  // As of now, with these bytes sent in this session.
  RunCounters counters(const PurposeBytes& sent) const;
  PurposeBytes sent_by_now() const;
  bool is_complete(int64_t update, const Pending& pending) const;
  void note_restarts(const Membership& table);
  void log_replaced(WorkerId worker, const PurposeBytes& sent);
  bool all_have_made(int64_t update) const;
  void complete_pending(int64_t last);  // up to this update
  void complete(int64_t update, const Pending& pending);
  void watch_rounds();
  void watch_stability(const RoundStatistics& rounds);
  void diverge(const StageUpdate& update);
  void drop_bad_checkpoint();
  Error divergence(const StageUpdate& update);
  void plan_checkpoint(const ShardLedger::Counting& counting);
  void know_newest_checkpoint();
  void compare_models(const std::vector<ShardSaved>& shards);
  RunCounters counters_at(int64_t update) const;
  void note_unsaved(const ShardSaved& saved);
  Chore write_chore();
  void wrote(const CheckpointWriter::Job& job, const Result<JoinedRun>& written);
  void note_saved(const CheckpointWriter::Job& job, const Path& checkpoint);
  void note_failed_save(int64_t update, const std::string& reason);
  void warn(const std::string& message) const;

  RunRecorderOptions options_;
  ProcessLog log_;
  RunCounters counters_;           // bytes: those of earlier sessions
  double updating_since_;          // run time at which the last update was complete
  double evaluating_seconds_ = 0;  // up to then, averaged over the workers
  double update_seconds_ = 0;      // time per update, smoothed
  Membership table_;
  int64_t newest_table_ = 0;  // number
  bool took_over_ = false;
  Membership::Incarnations incarnations_;  // that were counted
  ReplicaSet members_;                     // of the table
  bool regroups_ = false;
  // Likewise; or why an end was named is known to the coordinator that it was named to alone.
  bool goes_on_ = false;
  ReplicaSet diverged_;
  std::map<int64_t, Pending> pending_;  // by update
  std::map<WorkerId, int64_t> newest_;  // update that each worker has reported
  std::map<WorkerId, Finished> finished_;
  std::optional<uint64_t> weights_hash_;
  std::map<int64_t, RunCounters> marks_;  // by update, of the last ones: states are stored later
  ShardLedger ledger_;
  const CheckpointWriter writer_;
  std::optional<CheckpointWriter::Job> to_write_;
  bool writing_ = false;
  std::optional<Nanos> tried_at_;     // it could not be written then
  std::optional<Error> write_error_;  // why
  std::optional<Error> lost_state_;
  int64_t warned_of_save_ = -1;  // update
  bool warned_of_slow_disk_ = false;
  Tallies tallies_;
  bool warned_of_lag_ = false;
  bool told_of_guard_ = false;
  bool warned_of_alone_ = false;
  NewestEvaluations valid_;
  int64_t saved_number_ = -1;  // this session's last checkpoint
  int64_t saved_update_ = -1;  // of its counters
  Path checkpoint_;
  std::optional<StageUpdate> divergence_;  // of the last replica
};

}  // namespace leeway
