#include "run/process_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace leeway {

ProcessLog::ProcessLog(const ProcessLogOptions& options, EventLog log)
    : options_(options),
      log_(std::move(log)),
      filter_(options.level, options.plan),
      start_(options.clock.now()),
      newest_update_(options.plan.first_update) {}

double ProcessLog::seconds() const {
  return options_.seconds_before + (options_.clock.now() - start_).seconds();
}

void ProcessLog::warn_of(const Status& status) const {
  if (status.ok() || !options_.warned) return;
  options_.warned(status.error().message +
                  "; training goes on, and the log is written when it can be");
}

void ProcessLog::write(Event event) {
  ++tick_;
  if (tick_ != written_ + 1) event.add("tick", tick_);
  written_ = tick_;
  warn_of(log_.write(event));
}

void ProcessLog::flush() { warn_of(log_.flush()); }

void ProcessLog::joined(int64_t process, int64_t session, const std::vector<WorkerId>& fills) {
  Event event("joined");
  event.add("process", process).add("session", session).add("run", hash_hex(options_.plan.run));
  std::string places;
  for (const WorkerId& worker : fills) {
    places +=
        fmt::format("{}{}.{}", places.empty() ? "" : " ", worker.replica.value, worker.stage.value);
  }
  if (!places.empty()) event.add("fills", places);
  write(event);
}

void ProcessLog::worked(const WorkRecord& record) {
  if (record.work.kind == WorkKind::kUpdate)
    newest_update_ = std::max(newest_update_, record.work.update);
  if (!filter_.keeps(record)) return;
  WorkRecord timed = record;  // in the run's time
  const Nanos before = {static_cast<int64_t>(options_.seconds_before * 1e9)};
  timed.times.begin = record.times.begin - start_ + before;
  timed.times.end = record.times.end - start_ + before;
  write(to_event(timed));
  if (record.work.kind == WorkKind::kSave) flush();  // before a checkpoint relies on it
}

void ProcessLog::predicted(const Prediction& prediction) {
  if (!filter_.keeps_predictions_of(prediction.update)) return;
  write(Event("predicted")
            .add("replica", prediction.worker.replica.value)
            .add("stage", prediction.worker.stage.value)
            .add("update", prediction.update)
            .add("delay", prediction.delay)
            .add("prediction_error", prediction.error));
}

void ProcessLog::refused(const RefusedMessage& refusal) {
  const auto name = [](WorkerId id) {
    return id == kCoordinator ? std::string("coordinator")
                              : fmt::format("{} {}", id.replica.value, id.stage.value);
  };
  write(Event("refused")
            .add("update", newest_update_)
            .add("at", name(refusal.at))
            .add("from", name(refusal.from))
            .add("message", static_cast<int64_t>(refusal.kind))
            .add("reason", refusal.reason)
            .add("count", refusal.count));
}

}  // namespace leeway
