// Dashboard options, shared by `train` and `dashboard`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "dashboard/dashboard.h"

namespace leeway::cli {

struct DashboardArguments {
  std::string port_option;  // "--dashboard"
  std::string prefix;       // for the other options: "--dashboard-"
  std::string port;         // empty: no dashboard
  std::string host;
  std::string token_file;
};

void add_dashboard_arguments(CLI::App& command, const std::string& port_option,
                             const std::string& prefix, DashboardArguments& arguments);

// Prints the address on standard error. Null: no dashboard was asked for.
Result<std::unique_ptr<Dashboard>> open_dashboard(const DashboardArguments& arguments,
                                                  const Clock& clock);

}  // namespace leeway::cli
