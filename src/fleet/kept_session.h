// What the host of a session keeps in the run's folder for the one that is started after it has
// died: workers go on without a host, and come back to the next one. Replaced in one step whenever
// somebody comes or goes, removed when the session is over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "fleet/session_order.h"

namespace leeway {

struct KeptSession {
  SessionOrder order;                        // as it began, with who has which place now
  double began = 0;                          // seconds since 1970
  std::vector<int64_t> times;                // that each place was filled (Places)
  std::map<ProcessId, std::string> trained;  // names of all that have had places
  RunCounters before;                        // of the run, when the session began
  std::string address;                       // where the host listened
};

Status keep_session(const Path& run_folder, const KeptSession& kept);
// None: no session was running, or what was kept of it is damaged.
std::optional<KeptSession> kept_session(const Path& run_folder);
void drop_kept_session(const Path& run_folder);

}  // namespace leeway
