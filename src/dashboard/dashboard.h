// A web server that shows a run while it goes on: the report's page with newer data as it comes,
// and the numbers for Prometheus. It only reads the run folder; the run does not know of it.
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
  int port = 0;                  // 0: any free one
  std::string token = {};        // empty: none is asked for, which is for loopback alone
  std::string port_option = {};  // what the user calls the port
};

class Dashboard {
 public:
  // Answers from here on: a port that is taken is an error now. Read-only, GET and HEAD.
  static Result<std::unique_ptr<Dashboard>> open(const DashboardOptions& options,
                                                 const Clock& clock);
  // Shows whoever still looks how the run ended, and ends; takes no longer than a moment.
  virtual ~Dashboard() = default;

  virtual void follow(const Path& run_folder, RunWriter writer) = 0;
  virtual std::string address() const = 0;  // "http://127.0.0.1:8080/"
  // Returns when `stop_wanted`, which is asked several times a second, says so.
  virtual void wait(const std::function<bool()>& stop_wanted) = 0;
};

}  // namespace leeway
