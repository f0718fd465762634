// Signals as flags that a loop can poll.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace leeway {

// Ctrl-C, SIGTERM and a closed terminal: the first asks for a clean end, the second ends the
// program as usual.
void watch_for_interrupt();
bool interrupted();
int interrupting_signal();  // 0: none

// SIGUSR1, which Slurm and others send some time before they end a job: save, and go on.
void watch_for_save_requests();
int64_t save_requests();  // so far

// A descriptor that becomes readable at every signal, for signal_watch.h; -1: none. Returns the one
// before.
int set_signal_event(int event);
int signal_event();

// Returns when a signal arrives, or the time is up.
void wait_for_signal(Nanos at_most);

// A reader of the output that goes away (`| head -1`) and a limit on file sizes become errors of
// the write that meets them, not the end of the program.
void survive_failed_writes();

}  // namespace leeway
