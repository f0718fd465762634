// A worker's two ways out: messages to other workers, and reports to the run's recorder. A driver
// stands behind both.
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
  // Delivers the message to its own sender after this much time.
  virtual void remind(Message message, Nanos after) = 0;
};

// Records a run. The driver makes one call at a time.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void worked(const WorkRecord& record) = 0;
  virtual void updated(const StageUpdate& update) = 0;
  virtual void predicted(const Prediction& prediction) = 0;
  virtual void evaluated(const StageEvaluation& evaluation) = 0;
  virtual void saved(StageState state) = 0;

  // The run cannot continue (it diverged, the disk is full): the driver stops without draining.
  virtual bool abandoned() const = 0;
  // The user wants to stop: the driver tells stage 0, and the pipeline drains.
  virtual bool stop_wanted() const = 0;
  // Checkpoints that the user has asked for so far: the driver tells stage 0, and the run goes on.
  virtual int64_t saves_wanted() const { return 0; }
};

}  // namespace leeway
