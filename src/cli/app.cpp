#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/print_result.h"
#include "config/nearest.h"
#include "run/failure.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

constexpr const char* kDescription =
    "Leeway trains language models on machines that are far apart.\n"
    "Exit codes: 0 success, 1 failure, 2 invalid command line or recipe, 130, 143 and 129\n"
    "stopped by Ctrl-C, SIGTERM and a closed terminal.";

constexpr const char* kFooter =
    "Example:\n"
    "  leeway train recipes/quickstart.toml --out out/first\n"
    "  leeway generate out/first --prompt \"def forward(\"\n"
    "Help for one command: leeway train --help";

// The deepest command parsed so far: `leeway config` in `leeway config frob`.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

// A misspelled command; CLI11 alone would only say that a command is missing.
std::optional<Error> unknown_command(const CLI::App& app) {
  const CLI::App& at = innermost(app);
  const std::vector<std::string> words = at.remaining();
  const std::vector<const CLI::App*> commands = at.get_subcommands(/*all*/ nullptr);
  if (words.empty() || commands.empty()) return std::nullopt;
  std::vector<std::string_view> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::string path = &at == &app ? "leeway" : "leeway " + at.get_name();
  const auto meant = nearest(words.front(), names);
  return usage_error(fmt::format("there is no `{} {}`{}; see `{} --help`", path, words.front(),
                                 meant ? fmt::format(" (did you mean {}?)", *meant) : "", path));
}

int report(const Error& error) {
  print_failure(error);
  if (error.kind == ErrorKind::kInterrupted) return 128 + interrupting_signal();
  return error.kind == ErrorKind::kUsage ? 2 : 1;
}

// Whether another process of the same job says what is wrong with the words, which all of them got:
// the rank as mpirun or srun gives it to a process before MPI starts. Processes that join may each
// have words of their own.
bool another_rank_says_it(const CLI::App& app) {
  if (app.got_subcommand("join")) return false;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* const rank = std::getenv(name)) return std::string_view(rank) != "0";
  }
  return false;
}

int run_command(int argc, char** argv) {
  CLI::App app(kDescription, "leeway");
  app.footer(kFooter);
  app.require_subcommand(1);
  Action chosen;
  add_train(app, chosen);
  add_resume(app, chosen);
  add_launch(app, chosen);
  add_coordinate(app, chosen);
  add_join(app, chosen);
  add_eval(app, chosen);
  add_generate(app, chosen);
  add_replay(app, chosen);
  add_merge(app, chosen);
  add_reshape(app, chosen);
  add_report(app, chosen);
  add_dashboard(app, chosen);
  add_timeline(app, chosen);
  add_compare(app, chosen);
  add_data(app, chosen);
  add_simulate(app, chosen);
  add_plan(app, chosen);
  add_config(app, chosen);
  add_keys(app, chosen);
  add_version(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    // A rank that fails makes mpirun end the others, before the first one has said why.
    if (another_rank_says_it(app)) return 0;
    if (const auto unknown = unknown_command(app)) return report(*unknown);
    return report(usage_error(fmt::format("{}; see `leeway --help`", error.what())));
  }
  const Status status = chosen();
  return status.ok() ? 0 : report(status.error());
}

}  // namespace

int run(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (...) {
    return report(failure_of(std::current_exception()));
  }
}

}  // namespace leeway::cli
