// A web server that shows a run in progress: the report page with live data, and metrics for
// Prometheus. It only reads the run folder; the run does not know about it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "dashboard/live_run.h"

namespace leeway {

struct DashboardOptions {
  std::string host = "127.0.0.1";
  int port = 0;                  // 0: any free port
  std::string token = {};        // empty: none needed; only allowed on loopback
  std::string port_option = {};  // the option's name, for messages
};

class Dashboard {
 public:
  // Serves from here on; a port in use is an error now. Read-only: GET and HEAD.
  static Result<std::unique_ptr<Dashboard>> open(const DashboardOptions& options,
                                                 const Clock& clock);
  // Sends readers the final state and stops; takes a moment at most.
  virtual ~Dashboard() = default;

  virtual void follow(const Path& run_folder, RunWriter writer) = 0;
  virtual std::string address() const = 0;  // "http://127.0.0.1:8080/"
  // Returns when `stop_wanted`, polled several times a second, returns true.
  virtual void wait(const std::function<bool()>& stop_wanted) = 0;
};

}  // namespace leeway
