#include "terminal/interrupt.h"

#include <poll.h>

#include <csignal>
#include <ctime>

namespace leeway {
namespace {

volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t save_signals = 0;

void on_signal(int signal) {
  if (first_signal == 0) first_signal = signal;
  std::signal(signal, SIG_DFL);
}

void on_save_signal(int) { save_signals = save_signals + 1; }

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
