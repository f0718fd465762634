// The part of a run that lives in one process, in real time: some of its workers, in one process
// also the coordinator, each with a thread and a mailbox. What is for somebody else leaves through
// the router; what is for the disk goes to one more thread, that nobody waits for. A driver is one
// such process, or several and a way between them.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "drivers/loop/background.h"
#include "drivers/loop/locked_recorder.h"
#include "drivers/loop/mailbox.h"
#include "drivers/loop/planned_faults.h"
#include "drivers/loop/shard_writer.h"
#include "worker/coordinator.h"
#include "worker/driver.h"
#include "worker/workers.h"

namespace leeway {

using Router = std::function<void(Message)>;

struct ProcessOptions {
  const RunPlan& plan;
  std::vector<Worker*> workers;  // those that live here: any of the mesh, or none
  Journal& journal;
  Recorder* recorder = nullptr;  // the coordinator's, if it lives here
  Coordinator::Start coordinator = Coordinator::Start::kFresh;
  const Clock& clock;
  int threads_per_worker = 1;    // for the numeric kernels of one worker
  ShardStore* shards = nullptr;  // null: what these workers save is not kept
  // Takes a message to where its receiver lives; called from any thread, and must not block. Those
  // of the pipeline and the last orders must arrive: who is not told that it is over waits for it.
  Router router = {};
  // What goes wrong on purpose, where all of the mesh lives here, and who makes those that fill a
  // place again.
  std::vector<PlannedFault> planned = {};
  WorkerMaker maker = {};
};

class Process final : private Outbox {
 public:
  explicit Process(ProcessOptions options);

  // Until the session is over for all that live here. Rethrows an exception from a worker's compute
  // after all threads have ended; then the whole run is asked to end.
  void run();

  // From any thread:
  // Bytes of a message from another process. False: they are none, not for one that lives here, or
  // from one that may not say it.
  using Believes = std::function<bool(const Message&)>;
  bool receive(std::span<const std::byte> bytes, const Believes& believes = {});
  // A worker of another process is gone. The coordinator lives here.
  void lost(WorkerId worker, int64_t incarnation);
  // Pieces of work that its workers have done so far; reports, which may only be reminders, aside.
  int64_t turns() const { return turns_; }
  // The session goes on without those who live here.
  void leave();
  // What the user of this process wants of the whole run. After this object is gone, nobody
  // listens.
  Recorder::AskRun asker() const;

 private:
  void send(Message message) override;
  void remind(Message message, Nanos after) override;
  void store(std::shared_ptr<const StageState> state) override;

  // Where a worker was lost on purpose.
  struct Vacancy {
    bool left = false;                                 // it has gone, and
    int64_t incarnation = 0;                           // was this one
    bool filled = false;                               // another one may come, with
    std::shared_ptr<const StageState> own_state = {};  // what was on its disk
  };

  void work(Worker& first);
  void coordinate();
  void keep_wish(const Message& message);
  void fail_as_planned(ReplicaId replica, int64_t updates);
  void lose(WorkerId worker);
  void fill(WorkerId worker, bool with_disk);
  bool must_go(WorkerId worker);
  std::unique_ptr<Worker> successor_of(const Worker& lost);
  bool coordinator_must_go();
  void replace_coordinator();
  void do_chores();
  void tell_stored(Message message);
  void record_stored();
  template <class Action>
  void guarded(const Action& action);
  void fail(std::exception_ptr failure);

  ProcessOptions options_;
  std::shared_ptr<const Router> router_;
  LockedRecorder recorder_;
  std::optional<Coordinator> coordinator_;  // used by its own thread
  std::optional<Message> wish_;             // what the user has asked it for, likewise
  std::map<WorkerId, std::shared_ptr<Mailbox>> mailboxes_;
  std::map<WorkerId, at::Device> devices_;  // where the workers compute
  // While it runs:
  std::optional<Background> background_;
  std::optional<ShardWriter> shards_;
  std::mutex stored_mutex_;
  std::map<WorkerId, std::shared_ptr<const Report>> stored_;  // the newest of each worker
  std::mutex faults_mutex_;
  PlannedFaults planned_;
  std::map<WorkerId, Vacancy> vacancies_;
  bool coordinator_goes_ = false;
  std::atomic<int64_t> turns_ = 0;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace leeway
