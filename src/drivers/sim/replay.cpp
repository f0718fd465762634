#include "drivers/sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "drivers/sim/mesh.h"
#include "events/traffic.h"

namespace leeway::sim {
namespace {

// Messages arrive as soon as they are sent.
class Hand final : public Outbox {
 public:
  Hand(const Workers& workers, const Mesh& mesh, Recorder& recorder)
      : workers_(workers), mesh_(mesh), recorder_(recorder) {}
  void send(Message message) override {
    if (message.to == kCoordinator) return record(*message.report);
    Worker& to = *workers_[mesh_.index(message.to)];
    to.deliver(std::move(message));
  }
  // The records already show what each deadline caused.
  void remind(Message, Nanos) override {}
  // A replay saves nothing.
  void store(std::shared_ptr<const StageState>) override {}

 private:
  // The log has the coordinator's decisions: nothing is left to decide.
  void record(const Report& report) {
    const auto* const done = std::get_if<UpdateDone>(&report);
    if (done != nullptr && done->stage) recorder_.updated(*done->stage);
  }

  const Workers& workers_;
  const Mesh& mesh_;
  Recorder& recorder_;
};

std::string words(const Work& work) {
  return fmt::format("{} {} of update {} (version {}, delay {})", work_kind_word(work.kind),
                     work.index, work.update, work.version, work.delay);
}

Error differs(size_t at, const WorkRecord& record, const std::optional<Work>& next) {
  return Error{fmt::format(
      "record {} differs from the run: replica {} stage {} did {} then but would {} now", at + 1,
      record.worker.replica.value, record.worker.stage.value, words(record.work),
      next ? "do " + words(*next) : "wait")};
}

class Repetition {
 public:
  Repetition(const Workers& workers, Recorder& recorder, const ReplayOptions& options)
      : workers_(workers),
        mesh_(mesh_of(workers)),
        hand_(workers_, mesh_, recorder),
        recorder_(recorder),
        options_(options) {}

  bool goes_on() const { return !options_.stop_wanted || !options_.stop_wanted(); }
  const Mesh& mesh() const { return mesh_; }
  Worker& worker(WorkerId id) const { return *workers_[mesh_.index(id)]; }

  void repeat(Worker& worker, const Work& work, const WorkTimes& times) {
    Outcome outcome = worker.run(work);
    outcome.times = times;
    worker.finish(work, std::move(outcome), hand_, recorder_);
  }

  // Does what the log lacks before this record.
  void catch_up(Worker& worker, const Work& work) {
    const bool positioned =
        is_of_round(work.kind) || work.kind == WorkKind::kSave || work.kind == WorkKind::kAdopt;
    const auto there = [&] {
      return positioned ? worker.has_come_to(work) : worker.pipeline_turn() == work;
    };
    while (!there() && goes_on() && do_one_missing(worker)) {
    }
  }

  void catch_up_to_the_end(Worker& worker) {
    while (!worker.done() && goes_on() && do_one_missing(worker)) {
    }
  }

 private:
  // One piece towards this worker's next; false if there is none, or if the log should have it.
  bool do_one_missing(const Worker& wanting) {
    Worker* doing = &worker(wanting.id());
    std::optional<Work> next = doing->pipeline_turn();
    for (int64_t hops = 0; !next && hops < mesh_.stages; ++hops) {
      const std::optional<StageId> stage = doing->waits_for();
      if (!stage) return false;
      doing = &worker({.replica = doing->id().replica, .stage = *stage});
      next = doing->pipeline_turn();
    }
    if (!next) return false;
    if (options_.coverage.has(doing->id().replica, *next, doing->counts().updates + 1))
      return false;
    repeat(*doing, *next, {});
    return true;
  }

  const Workers& workers_;
  Mesh mesh_;
  Hand hand_;
  Recorder& recorder_;
  const ReplayOptions& options_;
};

}  // namespace

Status replay(const Workers& workers, const std::vector<WorkRecord>& recorded, Recorder& recorder,
              const ReplayOptions& options) {
  Repetition again(workers, recorder, options);
  for (size_t at = 0; at < recorded.size(); ++at) {
    const WorkRecord& record = recorded[at];
    // A plan without evaluations has none of these, and they change no weights.
    if (is_evaluation(record.work)) continue;
    if (!again.mesh().contains(record.worker)) {
      return Error{
          fmt::format("record {} belongs to replica {} stage {}, which this run does not have",
                      at + 1, record.worker.replica.value, record.worker.stage.value)};
    }
    Worker& worker = again.worker(record.worker);
    again.catch_up(worker, record.work);
    if (!again.goes_on()) return {};
    if (record.work.kind == WorkKind::kSave) {
      worker.drop_rounds();
      continue;
    }
    if (!worker.can_repeat(record.work)) return differs(at, record, worker.next());
    again.repeat(worker, record.work, record.times);
    if (!again.goes_on()) return {};
  }
  const ReplicaSet left = options.left.value_or(ReplicaSet::first(again.mesh().replicas));
  for (const auto& worker : workers) {
    if (left.contains(worker->id().replica)) again.catch_up_to_the_end(*worker);
  }
  if (!again.goes_on()) return {};
  const auto behind = std::find_if(workers.begin(), workers.end(), [&](const auto& worker) {
    return left.contains(worker->id().replica) && !worker->done();
  });
  if (behind == workers.end()) return {};
  return Error{fmt::format(
      "the event log is cut off: its {} records end before the run does, with replica {} stage {} "
      "after {} updates",
      recorded.size(), (*behind)->id().replica.value, (*behind)->id().stage.value,
      (*behind)->counts().updates)};
}

}  // namespace leeway::sim
