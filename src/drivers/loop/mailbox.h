// Where messages wait for one state machine. Threads share nothing else.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/time.h"
#include "worker/message.h"

namespace leeway {

class Mailbox {
 public:
  void put(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    arrived_.notify_one();
  }
  void put_after(Nanos time, Message message) {
    const std::lock_guard lock(mutex_);
    reminders_.emplace(SteadyClock::now() + std::chrono::nanoseconds(time.count),
                       std::move(message));
  }
  // Whoever waits looks up once, though there may be nothing.
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    arrived_.notify_one();
  }
  // The one that asked to be reminded is gone.
  void forget_reminders() {
    const std::lock_guard lock(mutex_);
    reminders_.clear();
  }
  // Nothing more comes: nobody waits for it.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_one();
  }
  // Everything that has arrived or come due. With `wait`, blocks until there is at least one,
  // somebody wakes the reader, the mailbox is closed, or the reader's patience ends.
  using Patience = std::chrono::nanoseconds;
  static constexpr Patience kForever = Patience::max();
  std::vector<Message> take(bool wait, Patience patience = kForever) {
    std::unique_lock lock(mutex_);
    const SteadyClock::time_point impatient =
        patience == kForever ? SteadyClock::time_point::max() : SteadyClock::now() + patience;
    while (true) {
      while (!reminders_.empty() && reminders_.begin()->first <= SteadyClock::now()) {
        messages_.push_back(std::move(reminders_.extract(reminders_.begin()).mapped()));
      }
      const bool woken = std::exchange(woken_, false);
      if (!wait || woken || closed_ || !messages_.empty()) return std::exchange(messages_, {});
      const auto reminder =
          reminders_.empty() ? SteadyClock::time_point::max() : reminders_.begin()->first;
      const auto until = std::min(impatient, reminder);
      if (until == SteadyClock::time_point::max()) {
        arrived_.wait(lock);
      } else if (arrived_.wait_until(lock, until) == std::cv_status::timeout &&
                 until == impatient) {
        return std::exchange(messages_, {});
      }
    }
  }

 private:
  using SteadyClock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
  bool closed_ = false;
  bool woken_ = false;
  std::multimap<SteadyClock::time_point, Message> reminders_;
};

}  // namespace leeway
