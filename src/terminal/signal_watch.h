// Calls back when a signal has arrived that interrupt.h watches for: on a thread of its own, where
// anything may be called, and without polling.
#pragma once

#include <functional>
#include <thread>

namespace leeway {

class SignalWatch {
 public:
  // Also calls back once at the beginning, for signals that came before. One watch at a time.
  explicit SignalWatch(std::function<void()> signalled);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void watch(const std::function<void()>& signalled) const;

  int end_ = -1;  // readable: stop watching
  std::thread thread_;
};

}  // namespace leeway
