// leeway dashboard RUN
#include "dashboard/dashboard.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/dashboard_arguments.h"
#include "drivers/threads/wall_clock.h"
#include "report/run_follower.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

struct Arguments {
  std::string run;
  DashboardArguments dashboard;
};

Status run(const Arguments& arguments) {
  // Report an unreadable run here rather than in the browser.
  LEEWAY_ASSIGN(RunFollower follower, RunFollower::open(arguments.run, {}));
  LEEWAY_TRY(follower.poll());
  const threads::WallClock clock;
  DashboardArguments given = arguments.dashboard;
  if (given.port.empty()) given.port = "0";
  watch_for_interrupt();
  LEEWAY_ASSIGN(const auto dashboard, open_dashboard(given, clock));
  dashboard->follow(arguments.run, RunWriter::kAnother);
  dashboard->wait(interrupted);
  return {};
}

}  // namespace

void add_dashboard(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("dashboard", "Show a run live in a browser");
  command->footer(
      "Examples:\n"
      "  leeway dashboard out/first --port 8080\n"
      "  leeway dashboard out/first --port 8080 --host 0.0.0.0 --token-file token.txt\n"
      "Read-only. Ctrl-C stops the dashboard; the run continues.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("RUN", arguments->run, "Run folder")->required();
  add_dashboard_arguments(*command, "--port", "--", arguments->dashboard);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
