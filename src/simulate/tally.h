// A recorder that counts what a simulated run does and keeps no records.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/time.h"
#include "drivers/sim/cost.h"
#include "events/traffic.h"
#include "worker/outbox.h"
#include "worker/run_plan.h"

namespace leeway {

// How often each value occurred.
using ValueCounts = std::map<double, int64_t>;
double mean_value(const ValueCounts& histogram);
double largest_of(const ValueCounts& histogram);

class Tally final : public Recorder {
 public:
  // Called at every update of every replica with the mean number of updates per replica; false ends
  // the simulation.
  using Progress = std::function<bool(int64_t updates)>;
  // `costs`: by worker, as in the simulation.
  Tally(const RunPlan& plan, const std::vector<sim::StageCosts>& costs, Progress progress);

  void worked(const WorkRecord& record) override;
  void begun(const AskRun& ask) override { ask_ = ask; }
  void updated(const StageUpdate&) override {}
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}
  bool abandoned() const { return abandoned_; }

  const PurposeBytes& bytes() const { return bytes_; }
  // What averaging took from one worker.
  struct Averaging {
    int64_t bytes_sent = 0;
    Nanos computing;
  };
  const std::vector<Averaging>& averaging() const { return averaging_; }  // by worker
  // Updates between the weights of a forward and those its gradient is applied to, by stage, once
  // pipelines are full.
  const std::vector<ValueCounts>& delays() const { return delays_; }
  const ValueCounts& lags() const { return lags_; }
  int64_t rounds() const { return rounds_; }
  int64_t updates() const { return updates_; }  // of all replicas
  // When the first stage of a replica, which finishes last, had done each update.
  const std::vector<Nanos>& update_times(ReplicaId replica) const {
    return update_times_[static_cast<size_t>(replica.value)];
  }

 private:
  const RunPlan& plan_;
  Progress progress_;
  const std::vector<sim::StageCosts>& costs_;
  PurposeBytes bytes_;
  std::vector<Averaging> averaging_;
  std::vector<ValueCounts> delays_;
  std::vector<int64_t> filled_at_;  // by stage: first microbatch of a full pipeline
  ValueCounts lags_;
  int64_t rounds_ = 0;
  int64_t updates_ = 0;
  std::vector<std::vector<Nanos>> update_times_;  // by replica
  bool abandoned_ = false;
  AskRun ask_;
};

}  // namespace leeway
