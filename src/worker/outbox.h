// A worker's two ways out: messages to other workers, and reports to whoever keeps the run's
// recorder. A driver stands behind both.
#pragma once

#include "base/time.h"
#include "compute/stage_reports.h"
#include "events/work.h"
#include "worker/message.h"

namespace leeway {

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(Message message) = 0;
  // Delivers the message to its own sender once so much time has passed.
  virtual void remind(Message message, Nanos after) = 0;
};

// Keeps the recorder of a run. One call at a time: the driver sees to it.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void worked(const WorkRecord& record) = 0;
  virtual void updated(const StageUpdate& update) = 0;
  virtual void predicted(const Prediction& prediction) = 0;
  virtual void evaluated(const StageEvaluation& evaluation) = 0;
  virtual void saved(StageState state) = 0;

  // The run cannot go on (it diverged, the disk is full): the driver stops without draining.
  virtual bool abandoned() const = 0;
  // A person wants an end: the driver tells stage 0, and the pipeline drains.
  virtual bool stop_wanted() const = 0;
};

}  // namespace leeway
