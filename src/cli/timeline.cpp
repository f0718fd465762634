// leeway timeline RUN
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/human.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/validators.h"
#include "report/cores.h"
#include "report/layout.h"
#include "report/stage_table.h"
#include "report/timeline_svg.h"
#include "report/trace.h"
#include "report/window.h"
#include "report/work_log.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

struct TimelineArguments {
  std::string run;
  std::string out;
  std::string trace;
  std::string updates;
  std::optional<double> from;
  std::optional<double> to;
};

Result<WindowRequest> window_request(const TimelineArguments& arguments) {
  WindowRequest request{.from_seconds = arguments.from, .to_seconds = arguments.to, .updates = {}};
  if (!arguments.updates.empty()) {
    LEEWAY_ASSIGN(request.updates, parse_update_range(arguments.updates));
  }
  return request;
}

std::string summary(const WorkSurvey& survey) {
  std::string updates = counted(survey.made_by_any, "update");
  if (survey.made_by_all < survey.made_by_any) {
    updates =
        fmt::format("{} to {}", human_count(static_cast<uint64_t>(survey.made_by_all)), updates);
  }
  return fmt::format("{}, {}, {}: {} of work in {}", counted(survey.stages(), "stage"),
                     counted(survey.replicas(), "replica"), updates,
                     counted(survey.records, "piece"),
                     human_seconds(survey.span.length().seconds()));
}

std::vector<std::string> notes(const WorkSurvey& survey, const Drawing& drawing) {
  std::vector<std::string> found;
  if (survey.has_ticks) found.push_back(std::string(kOneOfSeveral));
  if (survey.partial) {
    found.push_back(fmt::format(
        "the work of updates {} is logged (run.log); the numbers cover only these", survey.logged));
  }
  if (survey.cut) {
    found.push_back(
        "events.jsonl ends in an incomplete line, which is left out (the run is in progress or was "
        "killed)");
  }
  if (drawing.lanes_left_out > 0) {
    found.push_back(fmt::format("{} of {} workers are drawn; the numbers cover all of them",
                                survey.workers.size() - drawing.lanes_left_out,
                                survey.workers.size()));
  }
  if (drawing.merged > 0) {
    found.push_back(
        fmt::format("{} boxes stand for several pieces of work each; draw a shorter part to see "
                    "them separately",
                    human_count(drawing.merged)));
  }
  return found;
}

std::string join_windows(const std::vector<Window>& windows) {
  std::string text;
  for (const Window& window : windows) {
    text += fmt::format("{}{}", text.empty() ? "" : " and ", describe(window));
  }
  return text;
}

// Column titles for the busy time in each window.
std::vector<std::string> window_headers(const std::vector<Window>& windows) {
  if (windows.size() == 2) return {"busy, start", "busy, middle"};
  return {"busy, drawn"};
}

// `window`: what was asked for; none: everything.
Status write_trace_file(const Path& path, const WorkLog& log, const WorkSurvey& survey,
                        const std::optional<Window>& window) {
  std::vector<WorkerId> workers;
  for (const auto& [worker, covered] : survey.workers) workers.push_back(worker);
  LEEWAY_ASSIGN(TraceFile trace, TraceFile::create(path, workers));
  std::vector<TimeSpan> spans;
  if (window) spans.push_back(window->span);
  LEEWAY_TRY(log.each(
      spans, [&](const WorkRecord& record, std::optional<size_t>) { return trace.add(record); }));
  LEEWAY_ASSIGN(const int64_t written, trace.finish());
  fmt::print("wrote {}: {} of {}; open it at ui.perfetto.dev\n", path.string(),
             counted(written, "piece"), window ? window->name : "the whole run");
  return {};
}

Status run(const TimelineArguments& arguments) {
  const Path folder = arguments.run;
  const Path out = arguments.out.empty() ? folder / "timeline.svg" : Path(arguments.out);
  LEEWAY_ASSIGN(const WindowRequest request, window_request(arguments));
  if (out.extension() == ".html") {
    return usage_error(fmt::format(
        "--out {}: the picture is written as .svg; `leeway report {}` makes a page that shows it",
        out.string(), arguments.run));
  }
  if (!arguments.out.empty()) LEEWAY_TRY(check_output_file("--out", out, kTimelinePicture));
  if (!arguments.trace.empty()) LEEWAY_TRY(check_output_file("--trace", arguments.trace, kTrace));
  LEEWAY_ASSIGN(const WorkLog log, WorkLog::open(folder));
  LEEWAY_ASSIGN(WorkSurvey survey, log.survey());
  LEEWAY_ASSIGN(const std::vector<Window> windows, choose_windows(survey, request));
  std::vector<TimeSpan> spans;
  for (const Window& window : windows) spans.push_back(window.span);
  LEEWAY_ASSIGN(const WorkHistory history, log.history(survey, spans));
  const Drawing drawing = lay_out(history, windows, {.pixels = timeline_pixels(history)});
  add_drawn(survey.rows, history, spans);
  const std::string title = fmt::format("Timeline of {}", folder.string());
  LEEWAY_TRY(write_atomically(out, timeline_svg(drawing, title, SvgUse::kFile)));
  for (const std::string& note : notes(survey, drawing)) fmt::print(stderr, "note: {}\n", note);
  if (const CoresUsed cores = read_cores(folder); cores.shared()) {
    fmt::print(stderr, "note: boxes and busy shares include waiting for a core: {}\n",
               cores.text());
  }
  fmt::print("{}: {}\ndrawn: {}\n\n", folder.string(), summary(survey), join_windows(windows));
  fmt::print("{}", table_text(stage_text(survey.rows, window_headers(windows))));
  fmt::print("bubbles: idle share after warm-up, {}; delay: in updates, mean and max\n",
             survey.partial ? "logged updates" : "whole run");
  std::error_code code;
  fmt::print("wrote {} ({})\n", out.string(), human_bytes(std::filesystem::file_size(out, code)));
  if (arguments.trace.empty()) return {};
  const bool asked = request.updates || request.from_seconds || request.to_seconds;
  return write_trace_file(arguments.trace, log, survey,
                          asked ? std::optional(windows.front()) : std::nullopt);
}

}  // namespace

void add_timeline(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("timeline", "Draw what each worker of a run did, and when");
  command->footer(
      "Examples:\n"
      "  leeway timeline out/first\n"
      "  leeway timeline out/first --updates 100:110 --out picture.svg\n"
      "  leeway timeline out/first --trace trace.json\n"
      "For a long run, only the first updates and some from the middle are drawn. Updates whose "
      "work\n"
      "is not in the log (run.log) cannot be drawn.");
  const auto arguments = std::make_shared<TimelineArguments>();
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("--out", arguments->out, "Output file, .svg [RUN/timeline.svg]");
  CLI::Option* updates = command->add_option("--updates", arguments->updates,
                                             "Updates to draw, counted from 1: A:B, A:, :B or A");
  command
      ->add_option("--from", arguments->from,
                   "Draw from this time on, in seconds since the run began")
      ->check(at_least(0))
      ->excludes(updates);
  command->add_option("--to", arguments->to, "Draw up to this time, in seconds since the run began")
      ->check(at_least(0))
      ->excludes(updates);
  command->add_option(
      "--trace", arguments->trace,
      "Also write a Perfetto trace (.json) of the whole run, or of the part selected above");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
