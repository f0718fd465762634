// Does work on many threads and returns the results in the order in which the work was pushed.
// What the work throws is thrown where its result is popped.
//
// Everywhere else in this project only drivers use threads. Preparing text is the one job outside a
// run that needs all cores, and this file has all of its threading: only the queue below is shared,
// and only the owner pushes and pops, so it alone reads and writes files.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace leeway {

template <class In, class Out>
class OrderedPool {
 public:
  using Work = std::function<Out(const In&)>;  // called on many threads at once

  OrderedPool(int thread_count, Work work) : work_(std::move(work)) {
    for (int i = 0; i < thread_count; ++i) {
      try {
        threads_.emplace_back([this] { serve(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) throw;
        return;  // The system gives no more threads; the ones we have do the work.
      }
    }
  }
  // Drops work that has not started and waits for work that has.
  ~OrderedPool() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    work_came_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  // Never blocks: the owner limits the work in flight, because it knows how large a piece is.
  void push(In in) {
    {
      const std::lock_guard guard(mutex_);
      jobs_.push_back(std::make_unique<Job>(Job{std::move(in)}));
      waiting_.push_back(jobs_.back().get());
    }
    work_came_.notify_one();
  }

  bool empty() const { return jobs_.empty(); }  // jobs_ changes only in push() and pop()

  // The oldest result, if it is ready.
  std::optional<Out> try_pop() {
    std::unique_lock lock(mutex_);
    if (jobs_.empty() || !jobs_.front()->done()) return std::nullopt;
    return take_front();
  }
  // The oldest result; waits for it.
  Out pop() {
    std::unique_lock lock(mutex_);
    LEEWAY_CHECK(!jobs_.empty(), "nothing was pushed");
    result_came_.wait(lock, [this] { return jobs_.front()->done(); });
    return take_front();
  }

 private:
  struct Job {
    In in;
    std::optional<Out> out = {};
    std::exception_ptr failure = {};  // what the work has thrown
    bool done() const { return out || failure; }
  };

  Out take_front() {
    const std::unique_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job->failure) std::rethrow_exception(job->failure);
    return *std::move(job->out);
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_came_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Job* job = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      std::optional<Out> out;  // The job stays in jobs_ until it has a result.
      std::exception_ptr failure;
      try {
        out.emplace(work_(job->in));
        job->in = In();  // Waiting results need not keep their input.
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      job->out = std::move(out);
      job->failure = failure;
      if (job == jobs_.front().get()) result_came_.notify_one();
    }
  }

  Work work_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable result_came_;
  std::deque<std::unique_ptr<Job>> jobs_;  // in the order of push(), until popped
  std::deque<Job*> waiting_;               // not started yet
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace leeway
