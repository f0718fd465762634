#include "terminal/interrupt.h"

#include <csignal>

namespace leeway {
namespace {

volatile std::sig_atomic_t stop_wanted = 0;

void on_signal(int signal) {
  stop_wanted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_for_interrupt() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);  // what a scheduler sends before it takes a spot machine away
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) std::signal(SIGHUP, on_signal);  // nohup sets SIG_IGN
}

bool interrupted() { return stop_wanted != 0; }

}  // namespace leeway
