#include "drivers/threads/threads.h"

#include <ATen/Parallel.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "drivers/loop/mailbox.h"
#include "drivers/loop/turn.h"

namespace leeway::threads {
namespace {

// A recorder takes one call at a time.
class LockedRecorder final : public Recorder {
 public:
  explicit LockedRecorder(Recorder& recorder) : recorder_(recorder) {}
  void worked(const WorkRecord& record) override {
    const std::lock_guard lock(mutex_);
    recorder_.worked(record);
  }
  void predicted(const Prediction& prediction) override {
    const std::lock_guard lock(mutex_);
    recorder_.predicted(prediction);
  }
  void refused(const RefusedMessage& refusal) override {
    const std::lock_guard lock(mutex_);
    recorder_.refused(refusal);
  }
  void members(const Membership& table) override {
    const std::lock_guard lock(mutex_);
    recorder_.members(table);
  }
  void updated(const StageUpdate& update) override {
    const std::lock_guard lock(mutex_);
    recorder_.updated(update);
  }
  void evaluated(const StageEvaluation& evaluation) override {
    const std::lock_guard lock(mutex_);
    recorder_.evaluated(evaluation);
  }
  void saved(StageState state) override {
    const std::lock_guard lock(mutex_);
    recorder_.saved(std::move(state));
  }
  void finished(WorkerId worker, const Finished& finished) override {
    const std::lock_guard lock(mutex_);
    recorder_.finished(worker, finished);
  }

 private:
  Recorder& recorder_;
  std::mutex mutex_;
};

// One thread for each worker, and one for the coordinator.
class Session final : public Outbox {
 public:
  Session(const Workers& workers, Recorder& recorder, const Clock& clock, bool as_bytes)
      : workers_(workers),
        as_bytes_(as_bytes),
        plan_(workers.front()->plan()),
        recorder_(recorder),
        clock_(clock),
        coordinator_(plan_, recorder_) {
    for (const auto& worker : workers) mailboxes_[worker->id()] = std::make_shared<Mailbox>();
    mailboxes_[kCoordinator] = std::make_shared<Mailbox>();
    // The user may ask after the end: then nobody listens.
    recorder.begun([box = std::weak_ptr(mailboxes_[kCoordinator])](Ask wish) {
      if (const auto open = box.lock()) open->put(asking(wish));
    });
  }

  void send(Message message) override {
    if (as_bytes_) message = from_bytes(to_bytes(message)).value();
    mailboxes_.at(message.to)->put(std::move(message));
  }
  void remind(Message message, Nanos after) override {
    mailboxes_.at(message.to)->put_after(after, std::move(message));
  }

  void run(int threads_per_worker) {
    std::vector<std::thread> threads;
    try {
      threads.emplace_back([this] { guarded([this] { coordinate(); }); });
      for (size_t i = 0; i < workers_.size() && workers_.size() > 1; ++i) {
        threads.emplace_back([this, i, threads_per_worker] {
          guarded([&] {
            at::set_num_threads(threads_per_worker);  // for this thread only
            work(*workers_[i]);
          });
        });
      }
    } catch (...) {  // the system is out of threads: those already running must end first
      fail(std::current_exception());
    }
    // A single worker has this thread, and the numeric threads that belong to it.
    if (workers_.size() == 1) guarded([this] { work(*workers_.front()); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static Message asking(Ask wish) {
    return {.kind = MessageKind::kAsk,
            .from = kCoordinator,
            .to = kCoordinator,
            .index = static_cast<int64_t>(wish)};
  }

  void work(Worker& worker) {
    Mailbox& mailbox = *mailboxes_.at(worker.id());
    bool idle = false;
    while (!worker.over()) {
      for (Message& message : mailbox.take(/*wait=*/idle)) worker.deliver(std::move(message));
      idle = !take_turn(worker, clock_, *this, recorder_);
    }
  }

  void coordinate() {
    Mailbox& mailbox = *mailboxes_.at(kCoordinator);
    bool idle = false;
    while (!coordinator_.over()) {
      for (Message& message : mailbox.take(/*wait=*/idle)) coordinator_.deliver(std::move(message));
      idle = !take_turn(coordinator_, *this);
    }
  }

  template <class Action>
  void guarded(const Action& action) {
    try {
      action();
    } catch (...) {
      fail(std::current_exception());
    }
  }

  // The coordinator may be what failed: everybody is told here.
  void fail(std::exception_ptr failure) {
    {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::move(failure);
    }
    send(asking(Ask::kAbandon));
    for (const auto& worker : workers_) {
      Message over = {.kind = MessageKind::kOver, .from = kCoordinator, .to = worker->id()};
      over.envelope = {.run = plan_.run, .recipe = plan_.recipe};
      send(std::move(over));
    }
  }

  const Workers& workers_;
  bool as_bytes_;
  const RunPlan& plan_;
  LockedRecorder recorder_;
  const Clock& clock_;
  Coordinator coordinator_;
  std::map<WorkerId, std::shared_ptr<Mailbox>> mailboxes_;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace

Status Threads::run(const Workers& workers, Recorder& recorder) {
  const bool as_bytes = letters_ == Letters::kBytes;
  Session(workers, recorder, clock_, as_bytes).run(threads_per_worker_);
  return {};
}

}  // namespace leeway::threads
