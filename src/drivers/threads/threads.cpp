#include "drivers/threads/threads.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace leeway::threads {
namespace {

using SteadyClock = std::chrono::steady_clock;

class Mailbox {
 public:
  void put(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    arrived_.notify_one();
  }
  void put_at(SteadyClock::time_point time, Message message) {
    const std::lock_guard lock(mutex_);
    reminders_.emplace(time, std::move(message));
  }
  // Everything that has arrived or come due. With `wait`, blocks until there is at least one
  // message or `stop` is set.
  std::vector<Message> take(bool wait, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
      while (!reminders_.empty() && reminders_.begin()->first <= SteadyClock::now()) {
        messages_.push_back(std::move(reminders_.extract(reminders_.begin()).mapped()));
      }
      if (!wait || stop || !messages_.empty()) return std::exchange(messages_, {});
      if (reminders_.empty()) {
        arrived_.wait(lock);
      } else {
        arrived_.wait_until(lock, reminders_.begin()->first);
      }
    }
  }
  void wake() {
    const std::lock_guard lock(mutex_);  // no reader is between its check and its wait
    arrived_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
  std::multimap<SteadyClock::time_point, Message> reminders_;
};

// A recorder takes one call at a time.
class LockedRecorder final : public Recorder {
 public:
  explicit LockedRecorder(Recorder& recorder) : recorder_(recorder) {}
  void worked(const WorkRecord& record) override {
    const std::lock_guard lock(mutex_);
    recorder_.worked(record);
  }
  void updated(const StageUpdate& update) override {
    const std::lock_guard lock(mutex_);
    recorder_.updated(update);
  }
  void predicted(const Prediction& prediction) override {
    const std::lock_guard lock(mutex_);
    recorder_.predicted(prediction);
  }
  void evaluated(const StageEvaluation& evaluation) override {
    const std::lock_guard lock(mutex_);
    recorder_.evaluated(evaluation);
  }
  void saved(StageState state) override {
    const std::lock_guard lock(mutex_);
    recorder_.saved(std::move(state));
  }
  bool abandoned() const override {
    const std::lock_guard lock(mutex_);
    return recorder_.abandoned();
  }
  bool stop_wanted() const override {
    const std::lock_guard lock(mutex_);
    return recorder_.stop_wanted();
  }
  int64_t saves_wanted() const override {
    const std::lock_guard lock(mutex_);
    return recorder_.saves_wanted();
  }

 private:
  Recorder& recorder_;
  mutable std::mutex mutex_;
};

class Session final : public Outbox {
 public:
  Session(const Workers& workers, Recorder& recorder, const Clock& clock)
      : workers_(workers), recorder_(recorder), clock_(clock) {
    for (const auto& worker : workers) mailboxes_[worker->id()];
    unfinished_ = static_cast<int64_t>(workers.size());
  }

  void send(Message message) override { mailboxes_.at(message.to).put(std::move(message)); }
  void remind(Message message, Nanos after) override {
    const auto time = SteadyClock::now() + std::chrono::nanoseconds(after.count);
    mailboxes_.at(message.to).put_at(time, std::move(message));
  }

  void run(int threads_per_worker) {
    if (workers_.size() == 1) return work(*workers_.front());
    std::vector<std::thread> threads;
    try {
      for (const auto& worker : workers_) {
        threads.emplace_back([this, &worker, threads_per_worker] {
          try {
            at::set_num_threads(threads_per_worker);  // for this thread only
            work(*worker);
          } catch (...) {
            fail(std::current_exception());
          }
        });
      }
    } catch (...) {  // the system is out of threads: those already running must end first
      fail(std::current_exception());
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work(Worker& worker) {
    Mailbox& mailbox = mailboxes_.at(worker.id());
    bool wait = false;
    bool was_done = false;
    while (!stop_) {
      for (Message& message : mailbox.take(wait, stop_)) worker.deliver(std::move(message));
      const std::optional<Work> next = worker.next();
      wait = !next;
      if (next) step(worker, *next);
      // A worker that is done keeps serving the others until all are done.
      if (!was_done && !next && worker.done()) {
        was_done = true;
        if (--unfinished_ == 0) stop();
      }
    }
  }

  void step(Worker& worker, const Work& next) {
    const Nanos begin = clock_.now();
    Outcome outcome = worker.run(next);
    outcome.times = {.begin = begin, .end = clock_.now()};
    if (hears_requests(worker, next)) tell(worker, next);
    worker.finish(next, std::move(outcome), *this, recorder_);
    const bool may_end = next.kind == WorkKind::kUpdate || next.kind == WorkKind::kSave;
    if (may_end && recorder_.abandoned()) stop();
  }

  // One replica is told, and tells the others.
  void tell(Worker& worker, const Work& work) {
    if (recorder_.stop_wanted() && !told_of_stop_.exchange(true))
      worker.deliver({.kind = MessageKind::kStop, .from = worker.id(), .to = worker.id()});
    const int64_t saves = recorder_.saves_wanted();
    int64_t told = told_of_saves_;
    if (work.kind == WorkKind::kUpdate && told < saves &&
        told_of_saves_.compare_exchange_strong(told, saves))
      worker.deliver({.kind = MessageKind::kSave, .from = worker.id(), .to = worker.id()});
  }

  void stop() {
    stop_ = true;
    for (auto& [id, mailbox] : mailboxes_) mailbox.wake();
  }

  void fail(std::exception_ptr failure) {
    {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::move(failure);
    }
    stop();
  }

  const Workers& workers_;
  LockedRecorder recorder_;
  const Clock& clock_;
  std::map<WorkerId, Mailbox> mailboxes_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> told_of_stop_ = false;
  std::atomic<int64_t> told_of_saves_ = 0;
  std::atomic<int64_t> unfinished_ = 0;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace

Status Threads::run(const Workers& workers, Recorder& recorder) {
  Session(workers, recorder, clock_).run(threads_per_worker_);
  return {};
}

}  // namespace leeway::threads
