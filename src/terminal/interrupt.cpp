#include "terminal/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace leeway {
namespace {

volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t save_signals = 0;

volatile std::sig_atomic_t event_to_signal = -1;

void wake_watcher() {
  const int before = errno;  // of the code that the signal has interrupted
  const uint64_t one = 1;
  if (event_to_signal >= 0) static_cast<void>(!::write(event_to_signal, &one, sizeof one));
  errno = before;
}

void on_signal(int signal) {
  if (first_signal == 0) first_signal = signal;
  std::signal(signal, SIG_DFL);
  wake_watcher();
}

void on_save_signal(int) {
  save_signals = save_signals + 1;
  wake_watcher();
}

}  // namespace

void watch_for_interrupt() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);  // what a scheduler sends before it takes a spot machine away
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) std::signal(SIGHUP, on_signal);  // nohup sets SIG_IGN
}

bool interrupted() { return first_signal != 0; }

int interrupting_signal() { return first_signal; }

void watch_for_save_requests() { std::signal(SIGUSR1, on_save_signal); }

int64_t save_requests() { return save_signals; }

int set_signal_event(int event) {
  const int before = event_to_signal;
  event_to_signal = event;
  return before;
}

int signal_event() { return event_to_signal; }

void wait_for_signal(Nanos at_most) {
  const timespec time = {.tv_sec = at_most.count / 1'000'000'000,
                         .tv_nsec = at_most.count % 1'000'000'000};
  ::ppoll(nullptr, 0, &time, nullptr);
}

void survive_failed_writes() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace leeway
