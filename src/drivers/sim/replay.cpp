#include "drivers/sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "drivers/sim/mesh.h"
#include "events/traffic.h"

namespace leeway::sim {
namespace {

// Messages arrive as soon as they are sent.
class Hand final : public Outbox {
 public:
  Hand(const Workers& workers, const Mesh& mesh) : workers_(workers), mesh_(mesh) {}
  void send(Message message) override {
    Worker& to = *workers_[mesh_.index(message.to)];
    to.deliver(std::move(message));
  }
  // The records already show what each deadline caused.
  void remind(Message, Nanos) override {}

 private:
  const Workers& workers_;
  const Mesh& mesh_;
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

}  // namespace

Status replay(const Workers& workers, const std::vector<WorkRecord>& recorded, Recorder& recorder) {
  const Mesh mesh = mesh_of(workers);
  Hand hand(workers, mesh);
  for (size_t at = 0; at < recorded.size(); ++at) {
    const WorkRecord& record = recorded[at];
    // A plan without evaluations has none of these, and they change no weights.
    if (is_evaluation(record.work)) continue;
    if (!mesh.contains(record.worker)) {
      return Error{
          fmt::format("record {} belongs to replica {} stage {}, which this run does not have",
                      at + 1, record.worker.replica.value, record.worker.stage.value)};
    }
    Worker& worker = *workers[mesh.index(record.worker)];
    if (record.work.kind == WorkKind::kSave) {
      worker.drop_rounds();
      continue;
    }
    if (!worker.can_repeat(record.work)) return differs(at, record, worker.next());
    Outcome outcome = worker.run(record.work);
    outcome.times = record.times;
    worker.finish(record.work, std::move(outcome), hand, recorder);
    if (recorder.abandoned()) return {};
  }
  const auto behind =
      std::find_if(workers.begin(), workers.end(), [](const auto& w) { return !w->done(); });
  if (behind == workers.end()) return {};
  return Error{fmt::format(
      "the event log is cut off: its {} records end before the run does, with replica {} stage {} "
      "after {} updates",
      recorded.size(), (*behind)->id().replica.value, (*behind)->id().stage.value,
      (*behind)->counts().updates)};
}

}  // namespace leeway::sim
