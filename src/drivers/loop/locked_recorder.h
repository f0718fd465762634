// A journal or a recorder takes one call at a time; the threads of a process share it.
#pragma once

#include <mutex>
#include <type_traits>
#include <utility>

#include "worker/outbox.h"

namespace leeway {

class LockedRecorder final : public Recorder {
 public:
  // `recorder` null: the coordinator is in another process.
  LockedRecorder(Journal& journal, Recorder* recorder) : journal_(journal), recorder_(recorder) {}

  void worked(const WorkRecord& record) override {
    locked([&] { journal_.worked(record); });
  }
  void predicted(const Prediction& prediction) override {
    locked([&] { journal_.predicted(prediction); });
  }
  void refused(const RefusedMessage& refusal) override {
    locked([&] { journal_.refused(refusal); });
  }
  int64_t tick() const override {
    return locked([&] { return journal_.tick(); });
  }
  void move_tick_to(int64_t tick) override {
    locked([&] { journal_.move_tick_to(tick); });
  }

  void members(const Membership& table) override {
    locked([&] { recorder_->members(table); });
  }
  int64_t newest_table() const override {
    return locked([&] { return recorder_->newest_table(); });
  }
  int64_t newest_update() const override {
    return locked([&] { return recorder_->newest_update(); });
  }
  void regroups(bool yes) override {
    locked([&] { recorder_->regroups(yes); });
  }
  void tallied(WorkerId worker, const WorkTally& tally) override {
    locked([&] { recorder_->tallied(worker, tally); });
  }
  void updated(const StageUpdate& update) override {
    locked([&] { recorder_->updated(update); });
  }
  void evaluated(const StageEvaluation& evaluation) override {
    locked([&] { recorder_->evaluated(evaluation); });
  }
  void saved(const ShardSaved& saved) override {
    locked([&] { recorder_->saved(saved); });
  }
  void finished(WorkerId worker, const Finished& finished) override {
    locked([&] { recorder_->finished(worker, finished); });
  }
  std::optional<Chore> take_chore() override {
    return locked([&] { return recorder_->take_chore(); });
  }
  // What a chore leaves to do.
  void call(const std::function<void()>& rest) {
    locked([&] { rest(); });
  }

 private:
  template <class Call>
  std::invoke_result_t<Call> locked(const Call& call) const {
    const std::lock_guard lock(mutex_);
    return call();
  }

  Journal& journal_;
  Recorder* recorder_;
  mutable std::mutex mutex_;
};

}  // namespace leeway
