// For tests of replicas that come back: disks that are full for a while or lose what they had, and
// a recorder that checks from outside what it is told.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "round_plans.h"

namespace leeway::sim {

struct DiskOptions {
  uint64_t seed = 0;
  std::vector<Window> full = {};  // nothing can be written
  bool patient = false;           // the state that a session ends with waits for room
  int64_t torn_one_in = 0;        // states that cannot be read after a crash; 0: none
};

// The disks of all workers, which keep every state.
class Disk final : public ShardStore {
 public:
  Disk(const DiskOptions& options, const Clock& clock)
      : options_(options), clock_(clock), dice_(options.seed) {}

  Result<Stored> store(const StageState& state) override {
    const bool full = std::ranges::any_of(options_.full, [this](const Window& window) {
      return window.begin <= clock_.now() && clock_.now() < window.end;
    });
    if (full) return Error{"no space left on device"};
    states_[state.worker][state.update] = {.state = std::make_shared<const StageState>(state)};
    const uint64_t hash = written_.size() + 1;
    written_.emplace(state.worker, state.update, hash);
    return Stored{.file = "shard", .size = 1, .hash = hash};
  }
  std::shared_ptr<const StageState> newest_of(WorkerId worker) override {
    auto& states = states_[worker];
    for (auto at = states.rbegin(); at != states.rend(); ++at) {
      Kept& kept = at->second;
      kept.torn = kept.torn || (options_.torn_one_in > 0 && dice_.one_in(options_.torn_one_in));
      if (!kept.torn) return kept.state;
    }
    return nullptr;
  }
  bool wait_to_store(const Error&) override { return options_.patient; }

  // Whether this state was written, and not only said to be.
  bool has(const ShardSaved& saved) const {
    return written_.contains({saved.worker, saved.update, saved.hash});
  }

 private:
  struct Kept {
    std::shared_ptr<const StageState> state;
    bool torn = false;
  };
  DiskOptions options_;
  const Clock& clock_;
  Dice dice_;
  std::map<WorkerId, std::map<int64_t, Kept>> states_;         // by update
  std::set<std::tuple<WorkerId, int64_t, uint64_t>> written_;  // update and hash, ever
};

class Witness final : public Recorder {
 public:
  Witness(const RunPlan& plan, const Disk& disk)
      : plan_(plan), disk_(disk), table_(plan.replicas) {}

  void begun(const AskRun& ask) override { ask_ = ask; }
  void worked(const WorkRecord& record) override {
    records.push_back(record);
    if (record.work.kind == WorkKind::kUpdate) {
      Told& told = told_[record.worker];
      told.made = record.work.update;
      told.ends[record.times.end] = record.work.update;
    }
    if (records.size() == stop_after) ask_(Ask::kStop);
    if (records.size() == save_after) ask_(Ask::kSave);
  }
  void predicted(const Prediction&) override {}
  void members(const Membership& table) override {
    // A coordinator that begins again learns what the workers have heard of, which may be an older
    // one; but a number means one table.
    EXPECT_EQ(by_number_.try_emplace(table.number(), table).first->second, table);
    table_ = table;
    tables.push_back(table);
    for (const auto& [replica, restart] : table.restarts()) {
      restarted_[replica].insert(restart.update);
    }
  }
  int64_t newest_table() const override {
    return by_number_.empty() ? 0 : by_number_.rbegin()->first;
  }
  int64_t newest_update() const override { return newest_; }
  void regroups(bool yes) override { regroup = yes; }
  // A worker without compute reports no losses; but its numbers say when its newest update ended.
  void tallied(WorkerId worker, const WorkTally& tally) override {
    Told& told = told_[worker];
    const auto found = told.ends.find(tally.end);
    if (found == told.ends.end()) return;  // it has made none
    const int64_t update = found->second;
    // Without a coordinator, a worker forgets its oldest reports in the end.
    const bool forgotten = told.made - update > kForgottenAfter;
    const bool first = update == begun_before(worker.replica, update) + 1;
    EXPECT_TRUE(first || forgotten || told.updates.contains(update - 1) ||
                told.updates.contains(update))
        << "an update before " << update << " was not reported";
    told.updates.insert(update);
    newest_ = std::max(newest_, update);
  }
  void updated(const StageUpdate&) override {}
  void evaluated(const StageEvaluation&) override {}
  void saved(const ShardSaved& saved) override {
    const int64_t made = told_[saved.worker].made;
    EXPECT_LE(saved.update, std::max(made, table_.restart(saved.worker.replica).update))
        << "saved before it was made";
    if (!saved.stored()) return;
    EXPECT_TRUE(disk_.has(saved)) << "not on disk";
    std::set<StageId>& stages = stages_saved_[{saved.worker.replica, saved.update}];
    stages.insert(saved.worker.stage);
    const bool whole = std::ssize(stages) == plan_.shape.stages;
    if (whole) checkpoints_[saved.worker.replica].insert(saved.update);
  }
  void finished(WorkerId worker, const leeway::Finished& finished) override {
    if (!table_.has(worker.replica)) return;
    const Told& told = told_[worker];
    const int64_t begun = table_.restart(worker.replica).update;
    EXPECT_EQ(finished.updates, std::max(told.made, begun)) << "not what was made";
    EXPECT_TRUE(told.made <= begun || told.updates.contains(told.made)) << "not reported before";
  }

  std::vector<WorkRecord> of(WorkerId worker, WorkKind kind) const {
    std::vector<WorkRecord> found;
    for (const WorkRecord& record : records) {
      if (record.worker == worker && record.work.kind == kind) found.push_back(record);
    }
    return found;
  }
  const Membership& table() const { return table_; }
  // The newest update that all stages of this replica have on disk.
  int64_t checkpoint_of(ReplicaId replica) const {
    const auto found = checkpoints_.find(replica);
    return found == checkpoints_.end() ? -1 : *found->second.rbegin();
  }

  std::vector<WorkRecord> records;
  std::vector<Membership> tables;
  bool regroup = false;
  size_t stop_after = SIZE_MAX;
  size_t save_after = SIZE_MAX;

 private:
  static constexpr int64_t kForgottenAfter = 200;
  struct Told {
    int64_t made = 0;               // newest update
    std::map<Nanos, int64_t> ends;  // of updates
    std::set<int64_t> updates;      // that it has reported
  };
  // After which update the replica's epoch began that made this one.
  int64_t begun_before(ReplicaId replica, int64_t update) const {
    const auto found = restarted_.find(replica);
    if (found == restarted_.end()) return 0;
    const auto later = found->second.lower_bound(update);
    return later == found->second.begin() ? 0 : *std::prev(later);
  }

  const RunPlan& plan_;
  const Disk& disk_;
  Membership table_;
  int64_t newest_ = 0;  // update that anybody has reported
  std::map<int64_t, Membership> by_number_;
  std::map<ReplicaId, std::set<int64_t>> restarted_;  // after these updates
  std::map<WorkerId, Told> told_;
  std::map<std::pair<ReplicaId, int64_t>, std::set<StageId>> stages_saved_;  // by update
  std::map<ReplicaId, std::set<int64_t>> checkpoints_;                       // that count: updates
  AskRun ask_;
};

inline int64_t updates_of(const Witness& witness, int64_t replica) {
  const auto updates = witness.of({{replica}, {0}}, WorkKind::kUpdate);
  return updates.empty() ? 0 : updates.back().work.update;
}

}  // namespace leeway::sim
