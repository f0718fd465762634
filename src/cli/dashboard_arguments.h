// The options of a dashboard, which two commands have.
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
  std::string prefix;       // of the other options: "--dashboard-"
  std::string port;         // empty: none is wanted
  std::string host;
  std::string token_file;
};

void add_dashboard_arguments(CLI::App& command, const std::string& port_option,
                             const std::string& prefix, DashboardArguments& arguments);

// Says on standard error where it is. Null: none is wanted.
Result<std::unique_ptr<Dashboard>> open_dashboard(const DashboardArguments& arguments,
                                                  const Clock& clock);

}  // namespace leeway::cli
