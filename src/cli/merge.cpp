// leeway merge RUN OTHER... --out MERGED
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/human.h"
#include "base/names.h"
#include "cli/commands.h"
#include "drivers/threads/wall_clock.h"
#include "run/merged_run.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"

namespace leeway::cli {
namespace {

struct MergeArguments {
  std::string run;
  std::vector<std::string> others;
  std::string out;
};

Status run(const MergeArguments& arguments) {
  const threads::WallClock clock;
  std::optional<Progress> progress;
  const auto show = [&](uint64_t done, uint64_t total) -> Status {
    if (interrupted()) return stopped_error("stopped; nothing was written");
    if (!progress) progress.emplace(clock, "merging", total);
    progress->show(done, human_bytes(done));
    return {};
  };
  watch_for_interrupt();
  const std::vector<Path> others(arguments.others.begin(), arguments.others.end());
  LEEWAY_ASSIGN(const MergedLog merged,
                merge_run({.run = arguments.run, .others = others, .out = arguments.out}, show));
  progress.reset();
  for (const std::string& warning : merged.warnings) say(fmt::format("warning: {}\n", warning));
  fmt::print("wrote {}: {} of {}; next: leeway report {}\n", arguments.out,
             counted(merged.lines, "line"), counted(others.size() + 1, "log"),
             shell_word(arguments.out));
  return {};
}

}  // namespace

void add_merge(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("merge", "Make one run folder of the logs of a run's processes");
  command->footer(
      "Example:\n"
      "  leeway merge out/first out/first-b out/first-c --out out/merged\n"
      "  leeway replay out/merged\n"
      "Each process of a run writes its own events.jsonl. The merged folder has the lines of all "
      "of\n"
      "them, every message sent before it is received, and the configuration, summary and "
      "tokenizer\n"
      "of RUN: report, timeline, dashboard and replay read it like any other run. The logs stay "
      "as\n"
      "they are.");
  const auto arguments = std::make_shared<MergeArguments>();
  command->add_option("RUN", arguments->run, "Run folder of the coordinator's process")
      ->required()
      ->option_text("(required)");
  command
      ->add_option("OTHER", arguments->others,
                   "Folders of the other processes, or their events.jsonl")
      ->required()
      ->option_text("(required) ...");
  command->add_option("--out", arguments->out, "Folder to write; must not exist")
      ->required()
      ->option_text("MERGED (required)");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
