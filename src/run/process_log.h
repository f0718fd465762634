// The journal of one process: what its workers do, as lines of its event log. The process with the
// coordinator also has the run's own lines there. Logs of several processes can be merged: a line
// says "tick" where another process has moved the journal's clock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "config/choices.h"
#include "events/event_log.h"
#include "run/log_filter.h"
#include "worker/outbox.h"

namespace leeway {

struct ProcessLogOptions {
  LogLevel level = LogLevel::kAll;
  const RunPlan& plan;
  const Clock& clock;
  double seconds_before = 0;  // run time when the session begins: it continues across sessions
  std::function<void(const std::string&)> warned = {};
};

class ProcessLog final : public Journal {
 public:
  ProcessLog(const ProcessLogOptions& options, EventLog log);

  // The first line of a session in a process without the coordinator. `fills`: those of its workers
  // whose places another process had before, in the same session.
  void joined(int64_t process, int64_t session, const std::vector<WorkerId>& fills = {});

  void worked(const WorkRecord& record) override;
  void predicted(const Prediction& prediction) override;
  void refused(const RefusedMessage& refusal) override;
  int64_t tick() const override { return tick_; }
  void move_tick_to(int64_t tick) override { tick_ = std::max(tick_, tick); }

  // Lines that cannot be written wait in memory. One warning is enough.
  void write(Event event);
  void flush();
  bool is_written() const { return log_.is_written(); }
  // Run time, now.
  double seconds() const;

 private:
  void warn_of(const Status& status) const;

  ProcessLogOptions options_;
  EventLog log_;
  LogFilter filter_;
  Nanos start_;
  int64_t newest_update_;  // that a worker of this process has made
  int64_t tick_ = 0;
  int64_t written_ = 0;  // tick of the last line
};

}  // namespace leeway
