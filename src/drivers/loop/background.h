// One thread for what nobody waits for, one job after another: shards and manifests are written
// here while workers train.
#pragma once

#include <ATen/Parallel.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/time.h"

namespace leeway {

class Background {
 public:
  using Job = std::function<void()>;

  // `failed` is called with what a job throws, on the same thread.
  explicit Background(std::function<void(std::exception_ptr)> failed)
      : failed_(std::move(failed)), thread_([this] { work(); }) {}
  // What is due is done first; what waits for a time is dropped.
  ~Background() { finish(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // From any thread.
  void run(Job job) { run_after({}, std::move(job)); }
  void run_after(Nanos time, Job job) {
    const std::lock_guard lock(mutex_);
    jobs_.emplace(SteadyClock::now() + std::chrono::nanoseconds(time.count), std::move(job));
    changed_.notify_one();
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  using SteadyClock = std::chrono::steady_clock;

  void work() {
    at::set_num_threads(1);  // for this thread only: the others are the workers'
    std::unique_lock lock(mutex_);
    while (true) {
      const bool due = !jobs_.empty() && jobs_.begin()->first <= SteadyClock::now();
      if (due) {
        const Job job = std::move(jobs_.extract(jobs_.begin()).mapped());
        lock.unlock();
        try {
          job();
        } catch (...) {
          failed_(std::current_exception());
        }
        lock.lock();
      } else if (ends_) {
        return;
      } else if (jobs_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, jobs_.begin()->first);
      }
    }
  }

  std::function<void(std::exception_ptr)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<SteadyClock::time_point, Job> jobs_;  // of one moment in the order they came
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace leeway
