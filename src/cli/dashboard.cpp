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
  // What cannot be read is better said here than to whoever looks.
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
  CLI::App* command =
      app.add_subcommand("dashboard", "Show a run in a browser while another program writes it");
  command->footer(
      "Examples:\n"
      "  leeway dashboard out/first --port 8080\n"
      "  leeway dashboard out/first --port 8080 --host 0.0.0.0 --token-file token.txt\n"
      "It only reads. Ctrl-C ends it; the run goes on.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("RUN", arguments->run, "A run folder")->required();
  add_dashboard_arguments(*command, "--port", "--", arguments->dashboard);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
