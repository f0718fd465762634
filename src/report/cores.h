// Whether the workers of a run had to share cores.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "events/event.h"

namespace leeway {

// 0: unknown, or nothing competes for cores because time is simulated or a GPU computes.
struct CoresUsed {
  int64_t cores = 0;    // that the process may use
  int64_t threads = 0;  // of all workers
  // More threads than cores: the time of a piece of work includes waiting for a core.
  bool shared() const { return cores > 0 && threads > cores; }
  std::string text() const;  // "8 threads on 2 cores"
};

// What the event that begins a session says.
CoresUsed cores_of(const Event& event);

// Of the run's first session.
CoresUsed read_cores(const Path& run_folder);

}  // namespace leeway
