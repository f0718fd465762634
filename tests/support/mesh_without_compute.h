// Workers without compute and a recorder that remembers, for tests of drivers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "worker/driver.h"

namespace leeway {

using IdleWorkers = Workers;

// Remembers every piece of work. Can ask to stop or to save, or abandon the run, after a number of
// them.
class Notebook final : public Recorder {
 public:
  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    records_.push_back(record);
    if (!ask_) return;
    const size_t count = records_.size();
    if (count == stop_after_) ask_(Ask::kStop);
    if (count == abandon_after_) ask_(Ask::kAbandon);
    if (std::ranges::count(save_after_, count) > 0) ask_(Ask::kSave);
  }
  void updated(const StageUpdate&) override {}
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}
  void saved(const ShardSaved& saved) override {
    if (saved.stored()) stored_.emplace(saved.worker, saved.update);
    if (saved.stored() && saved.last) last_stored_.insert(saved.worker);
  }
  void tallied(WorkerId worker, const WorkTally& tally) override { tallies_[worker] = tally; }

  void stop_after(size_t records) { stop_after_ = records; }
  void save_after(std::vector<size_t> records) { save_after_ = std::move(records); }
  void abandon_after(size_t records) { abandon_after_ = records; }

  const Tallies& tallies() const { return tallies_; }
  // States that are said to be on disk, however often, and those that the session ended with.
  int64_t stored() const { return std::ssize(stored_); }
  int64_t last_stored() const { return std::ssize(last_stored_); }
  const std::vector<WorkRecord>& records() const { return records_; }
  std::vector<WorkRecord> of(WorkerId worker) const {
    std::vector<WorkRecord> found;
    for (const WorkRecord& record : records_) {
      if (record.worker == worker) found.push_back(record);
    }
    return found;
  }
  std::vector<WorkRecord> of(WorkerId worker, WorkKind kind) const {
    std::vector<WorkRecord> found;
    for (const WorkRecord& record : of(worker)) {
      if (record.work.kind == kind) found.push_back(record);
    }
    return found;
  }

 private:
  std::vector<WorkRecord> records_;
  Tallies tallies_;
  std::set<std::pair<WorkerId, int64_t>> stored_;  // and update
  std::set<WorkerId> last_stored_;
  size_t stop_after_ = SIZE_MAX;
  std::vector<size_t> save_after_;  // one request each
  size_t abandon_after_ = SIZE_MAX;
  AskRun ask_;
};

// A run of `updates` updates that evaluates nothing and saves only at the end.
inline RunPlan plan_of(const PipelineShape& shape, int64_t updates) {
  return {.shape = shape, .last_update = updates, .run_updates = updates};
}

// The same with several replicas, which interact only for evaluations.
inline RunPlan with_replicas(RunPlan plan, int64_t replicas) {
  plan.replicas = replicas;
  plan.evaluation.replicas = replicas;
  return plan;
}

inline IdleWorkers make_mesh(const RunPlan& plan) { return make_workers_without_compute(plan); }
// Makes those that fill a place again.
inline WorkerMaker maker_of(const RunPlan& plan) {
  return [&plan](WorkerId id, const Entry& entry) {
    return std::make_unique<Worker>(id, plan, nullptr, entry);
  };
}

}  // namespace leeway
