// The recorder of one session: turns every report of every worker into lines of the event log,
// checkpoints, and what the user sees.
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
#include "run/log_filter.h"
#include "run/round_statistics.h"
#include "run/saved_states.h"
#include "run/stage_statistics.h"
#include "run/training_observer.h"
#include "worker/outbox.h"
#include "worker/run_plan.h"

namespace leeway {

// Over the replicas, summed in order: always the same bits.
double mean_loss(const std::map<ReplicaId, double>& losses);

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
  // `valid`: the last evaluation of the previous session.
  RunRecorder(const RunRecorderOptions& options, EventLog log, RunCounters counters,
              std::optional<Evaluated> valid);

  void worked(const WorkRecord& record) override;
  void predicted(const Prediction& prediction) override;
  void refused(const RefusedMessage& refusal) override;
  void begun(const AskRun& ask) override {
    if (options_.observer.begun) options_.observer.begun(ask);
  }
  void members(const Membership& table) override;
  void updated(const StageUpdate& update) override;
  void evaluated(const StageEvaluation& evaluation) override;
  void saved(StageState state) override;
  void finished(WorkerId worker, const Finished& finished) override {
    finished_[worker] = finished;
  }

  void log(const Event& event);
  void flush_log();

  // What every worker that was there to the end has said about itself.
  const std::map<WorkerId, Finished>& finished() const { return finished_; }
  // A hash of the whole model's weights, as they were last saved in this session.
  std::optional<uint64_t> weights_hash() const { return weights_hash_; }
  // Why the run was abandoned.
  const std::optional<Error>& failure() const { return failure_; }
  // As of now, with the whole run's time so far and everything sent.
  RunCounters counters() const { return counters(INT64_MAX); }
  // The newest evaluation, of this session or the previous one.
  const std::optional<Evaluated>& valid() const { return valid_; }
  StageStatistics statistics(StageId stage) const { return statistics_.of(stage); }
  RoundStatistics round_statistics() const { return rounds_.statistics(); }
  // Tries a checkpoint again that could not be written; an error if it still cannot, or none waits.
  Status save_again();
  std::optional<Path> newest_checkpoint() const { return writer_.newest(); }
  bool has_unsaved() const { return writer_.waiting().has_value(); }
  bool log_is_written() const { return log_.is_written(); }

 private:
  // An update that not all stages have made yet.
  struct Pending {
    std::map<WorkerId, double> squared_norms;  // added in the order of workers, not of arrival
    std::map<ReplicaId, double> losses;
    double rate_factor = 0;
  };
  static void add(RunCounters& counters, const PurposeBytes& bytes);
  double seconds_now() const;
  RunCounters counters(int64_t update) const;  // counts bytes sent up to this update
  bool is_complete(const Pending& pending) const;
  bool all_have_made(int64_t update) const;
  void complete_pending(int64_t last);  // up to this update
  void complete(int64_t update, const Pending& pending);
  void count_bytes(const WorkRecord& record);
  void watch_stability();
  void watch_contributors();
  int64_t worker_count() const { return options_.plan.shape.stages * options_.plan.replicas; }
  void diverge(const StageUpdate& update);
  void drop_bad_checkpoint();
  void write_checkpoint(const std::vector<StageState>& states);
  void note_saved(int64_t update, const Path& checkpoint);
  void warn(const std::string& message) const;
  void warn_of_log(const Error& error) const;

  RunRecorderOptions options_;
  EventLog log_;
  LogFilter filter_;
  RunCounters counters_;
  Nanos start_;
  double seconds_before_;
  double updating_since_;          // run time at which the last update was complete
  double evaluating_seconds_ = 0;  // since then, averaged over the workers
  double update_seconds_ = 0;      // time per update, smoothed
  ReplicaSet members_;
  ReplicaSet diverged_;
  std::map<int64_t, Pending> pending_;  // by update
  std::map<WorkerId, int64_t> newest_;  // update that each worker has reported
  std::map<WorkerId, Finished> finished_;
  std::optional<uint64_t> weights_hash_;
  SavedStates saved_;
  CheckpointWriter writer_;
  StatisticsKeeper statistics_;
  RoundKeeper rounds_;
  bool warned_of_lag_ = false;
  bool told_of_guard_ = false;
  std::map<int64_t, PurposeBytes> bytes_;  // by update, for updates not yet complete
  std::optional<Evaluated> valid_;
  int64_t saved_update_ = -1;  // this session's last checkpoint
  Path checkpoint_;
  std::optional<Error> failure_;
};

}  // namespace leeway
