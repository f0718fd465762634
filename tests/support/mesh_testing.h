// Shared by tests of whole meshes: a manual driver that gives the workers turns in an order the
// test chooses, and a recorder that only remembers.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "drivers/loop/turn.h"
#include "worker/shard_store.h"
#include "worker/workers.h"

namespace leeway {

class MemoryRecorder : public Recorder {
 public:
  void worked(const WorkRecord& record) override { records.push_back(record); }
  void updated(const StageUpdate& update) override { updates.push_back(update); }
  void predicted(const Prediction& prediction) override { predictions.push_back(prediction); }
  void evaluated(const StageEvaluation& evaluation) override { evaluations.push_back(evaluation); }
  void saved(const ShardSaved& saved) override { shards.push_back(saved); }
  void tallied(WorkerId worker, const WorkTally& tally) override { tallies[worker] = tally; }

  std::vector<double> losses() const {
    std::vector<double> found;
    for (const StageUpdate& update : updates) {
      if (update.loss) found.push_back(*update.loss);
    }
    return found;
  }

  std::vector<WorkRecord> records;
  std::vector<StageUpdate> updates;
  std::vector<Prediction> predictions;
  std::vector<StageEvaluation> evaluations;
  std::vector<ShardSaved> shards;
  Tallies tallies;
};

// Workers take turns; `order` picks which of the ready ones goes next. Messages arrive at once;
// deadlines only when no worker can continue without them, in the order they were requested.
class HandDriver : public Outbox {
 public:
  // `shards` null: what workers save is not kept.
  explicit HandDriver(const Workers& workers, ShardStore* shards = nullptr)
      : workers_(workers), shards_(shards) {}
  void send(Message message) override {
    if (message.to == kCoordinator) return coordinator_->deliver(std::move(message));
    worker_at(message.to).deliver(std::move(message));
  }
  void remind(Message message, Nanos) override {
    if (message.kind == MessageKind::kDeadline) reminders_.push_back(std::move(message));
  }
  void store(std::shared_ptr<const StageState> state) override {
    const auto stored = shards_ == nullptr ? ShardStore::Stored{} : shards_->store(*state);
    worker_at(state->worker).deliver(stored_message(*state, stored));
  }
  void ask(Ask wish) { coordinator_->deliver(ask_message(workers_.front()->plan(), wish)); }

  // False: no worker can continue, and not all are done.
  bool run(Recorder& recorder, const std::function<size_t(size_t turn, size_t ready)>& order,
           const std::function<void(const Work&)>& before_finish = {}) {
    coordinator_.emplace(workers_.front()->plan(), recorder);
    for (size_t turn = 0;; ++turn) {
      while (take_turn(*coordinator_, *this)) {
      }
      std::vector<std::pair<Worker*, Work>> ready;
      for (const auto& worker : workers_) {
        if (const auto work = worker->next()) ready.emplace_back(worker.get(), *work);
      }
      if (ready.empty()) {
        if (reminders_.empty()) break;
        Message reminder = std::move(reminders_.front());
        reminders_.pop_front();
        worker_at(reminder.to).deliver(std::move(reminder));
        continue;
      }
      auto& [worker, work] = ready[order(turn, ready.size())];
      Outcome outcome = worker->run(work);
      if (before_finish) before_finish(work);
      worker->finish(work, std::move(outcome), *this, recorder);
    }
    for (const auto& worker : workers_) {
      if (!worker->done() && !worker->over()) return false;
    }
    return true;
  }
  bool run(Recorder& recorder) {
    return run(recorder, [](size_t, size_t) { return size_t{0}; });
  }

 private:
  Worker& worker_at(WorkerId id) {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [&](const auto& worker) { return worker->id() == id; });
    EXPECT_NE(found, workers_.end()) << "a message to an unknown worker";
    return **found;
  }

  const Workers& workers_;
  ShardStore* shards_;
  std::optional<Coordinator> coordinator_;
  std::deque<Message> reminders_;
};

}  // namespace leeway
