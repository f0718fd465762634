// A worker's ways out: messages, and the journal of the process that it runs in. A driver stands
// behind both. What the whole run must know goes to the coordinator, as messages.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/time.h"
#include "compute/stage_reports.h"
#include "events/work.h"
#include "worker/message.h"
#include "worker/refused_messages.h"

namespace leeway {

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(Message message) = 0;
  // Delivers the message to its own sender after this much time.
  virtual void remind(Message message, Nanos after) = 0;
  // Writes what the worker has saved, without holding it up, and delivers kStored.
  virtual void store(std::shared_ptr<const StageState> state) = 0;
};

// What happened in this process, as it happens. The driver makes one call at a time.
class Journal {
 public:
  virtual ~Journal() = default;
  virtual void worked(const WorkRecord& record) = 0;
  virtual void predicted(const Prediction& prediction) = 0;
  virtual void refused(const RefusedMessage&) {}

  // A clock that counts lines, so that the journals of several processes can be merged in a causal
  // order. Each line advances it; what another process sends moves it to the sender's, if that is
  // later.
  virtual int64_t tick() const { return 0; }
  virtual void move_tick_to(int64_t) {}
};

// What the coordinator makes of the workers' reports: the run's log, checkpoints, progress. Here it
// is also the journal of the coordinator's process. The driver makes one call at a time.
class Recorder : public Journal {
 public:
  // The run has begun: a way to ask for what the user wants, from any thread, until it ends.
  using AskRun = std::function<void(Ask)>;
  virtual void begun(const AskRun&) {}
  // From now on these replicas count.
  virtual void members(const Membership&) {}
  // The newest table that it was told of, and the newest update that any worker has reported.
  virtual int64_t newest_table() const { return 0; }
  virtual int64_t newest_update() const { return 0; }
  // The session ends now so that replicas that are back can take part in the next one; or it does
  // not, because the user wants it to end.
  virtual void regroups(bool) {}
  // Comes before whatever else the same report says.
  virtual void tallied(WorkerId, const WorkTally&) {}
  virtual void updated(const StageUpdate& update) = 0;
  virtual void evaluated(const StageEvaluation& evaluation) = 0;
  virtual void saved(const ShardSaved&) {}
  virtual void finished(WorkerId, const Finished&) {}

  // Something slow that nobody has to wait for: a driver in real time calls it on a thread of its
  // own, and what it returns like the recorder itself, one call at a time. Asked for after every
  // turn of the coordinator.
  using Chore = std::function<std::function<void()>()>;
  virtual std::optional<Chore> take_chore() { return std::nullopt; }
};

}  // namespace leeway
