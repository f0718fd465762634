// leeway report RUN...
#include "report/report_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>

#include "base/held_folder.h"
#include "base/human.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "drivers/threads/wall_clock.h"
#include "report/report_csv.h"
#include "report/run_follower.h"
#include "report/tensorboard.h"
#include "report/validation_groups.h"
#include "report/verdict.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string against;
  std::string out;
  std::string csv;
  std::string tensorboard;
  bool json = false;
};

// Inside the folder of a single run; beside the first of several.
Path default_page(const std::vector<std::string>& runs) {
  const Path first = runs.front();
  if (runs.size() == 1) return first / "report.html";
  return (first.has_filename() ? first : first.parent_path()).parent_path() / "report.html";
}

// Two curves of the same run would hide each other.
Status check_different(const std::vector<std::string>& folders) {
  std::set<Path> found;
  std::error_code code;
  for (const std::string& folder : folders) {
    if (found.insert(std::filesystem::weakly_canonical(folder, code)).second) continue;
    return usage_error(fmt::format("{} is named twice; name each run once", folder));
  }
  return {};
}

Result<std::vector<RunData>> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunData> runs;
  for (const std::string& folder : folders) {
    LEEWAY_ASSIGN(RunData run, read_run(folder, limits_for(folders.size())));
    if (run.state == RunState::kUnfinished && run.written_at) {
      run.notes.push_back(unfinished_note(run, threads::unix_seconds(), holder_of(folder)));
    }
    runs.push_back(std::move(run));
  }
  name_runs(runs);
  return runs;
}

std::string page_title(const std::vector<RunData>& runs) {
  if (runs.size() == 1) return fmt::format("Run {}", runs.front().name);
  return fmt::format("{} runs", runs.size());
}

std::string or_dash(const std::optional<double>& value, const char* format, double factor = 1) {
  return value ? fmt::format(fmt::runtime(format), *value * factor) : "-";
}

TextTable headline_table(const std::vector<RunData>& runs) {
  TextTable table;
  const ValidationGroups groups = validation_groups(runs);
  table.header = {"run",      "state", "updates",       "valid loss",   "train loss, last 20",
                  "tokens/s", "busy",  "replicas sent", "of all-reduce"};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    const Headline& headline = run.headline;
    const std::string on = groups.letters[i].empty() ? "" : " on " + groups.letters[i];
    table.rows.push_back(
        {run.name, std::string(state_word(run.state)),
         human_count(static_cast<uint64_t>(headline.updates)),
         or_dash(headline.valid_loss, "{:.4f}") + on, or_dash(headline.train_loss, "{:.4f}"),
         human_count(static_cast<uint64_t>(std::llround(headline.tokens_per_second))),
         or_dash(headline.busy, "{:.1f} %", 100),
         human_bytes(static_cast<uint64_t>(headline.replicas_sent())),
         or_dash(headline.traffic_share(), "{:.1f} %", 100)});
  }
  return table;
}

// What the table alone would not tell.
std::vector<std::string> notes_on(const std::vector<RunData>& runs) {
  std::vector<std::string> notes;
  if (std::string note = validation_groups(runs).note; !note.empty()) notes.push_back(note);
  for (const RunData& run : runs) {
    const std::string away = text_of(run.members);
    if (!away.empty()) notes.push_back(fmt::format("{}: {}", run.name, away));
  }
  for (const RunData& run : runs) {
    if (!run.cores.shared()) continue;
    notes.push_back(
        fmt::format("busy of {} includes waiting for a core: {}", run.name, run.cores.text()));
  }
  return notes;
}

Status write_csv(const Path& folder, const std::vector<RunData>& runs) {
  LEEWAY_TRY(make_folder(folder));
  for (const auto& [name, text] : report_csv(runs)) {
    LEEWAY_TRY(write_atomically(folder / name, text));
  }
  return {};
}

// The log has no dates, but a run writes its config.toml when it begins.
double begin_of(const RunData& run) {
  std::error_code code;
  const auto time = std::filesystem::last_write_time(Path(run.folder) / "config.toml", code);
  if (code) return 0;
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// A folder per run, which TensorBoard shows as a run. The file name is always the same, so a later
// export replaces it.
Status write_tensorboard(const Path& folder, const std::vector<RunData>& runs) {
  for (const RunData& run : runs) {
    std::string name = run.name;
    for (char& c : name) c = c == '/' ? '_' : c;
    LEEWAY_TRY(make_folder(folder / name));
    LEEWAY_TRY(write_atomically(folder / name / "events.out.tfevents.0.leeway",
                                tensorboard_file(run, begin_of(run))));
  }
  return {};
}

void print_json(const std::vector<RunData>& runs, const Path& page) {
  const ValidationGroups groups = validation_groups(runs);
  nlohmann::ordered_json json = {{"page", page.string()}};
  json["runs"] = nlohmann::ordered_json::array();
  for (const RunData& run : runs) {
    nlohmann::ordered_json row = {
        {"run", run.name}, {"folder", run.folder}, {"state", state_word(run.state)}};
    row.update(to_json(run.headline));
    row["cores"] = run.cores.cores;
    row["threads"] = run.cores.threads;
    row["members"] = to_json(run.members);
    row["validated_on"] = groups.letters[json["runs"].size()];
    row["notes"] = run.notes;
    json["runs"].push_back(std::move(row));
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_text(const std::vector<RunData>& runs, const ReportArguments& arguments,
                const Path& page) {
  for (const RunData& run : runs) {
    for (const std::string& note : run.notes) fmt::print(stderr, "note: {}: {}\n", run.name, note);
  }
  for (const std::string& note : notes_on(runs)) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}", table_text(headline_table(runs)));
  fmt::print("train loss: mean of the last 20 updates; losses in nats per token\n");
  if (!arguments.against.empty()) {
    for (const std::string& line : verdict(runs.front(), runs.back())) fmt::print("{}\n", line);
  }
  std::error_code code;
  fmt::print("wrote {} ({})\n", page.string(), human_bytes(std::filesystem::file_size(page, code)));
  if (!arguments.csv.empty()) fmt::print("wrote {}: six CSV files\n", arguments.csv);
  if (!arguments.tensorboard.empty()) {
    fmt::print("wrote {}; view it with `tensorboard --logdir {}`\n", arguments.tensorboard,
               arguments.tensorboard);
  }
}

Status run(ReportArguments arguments) {
  if (!arguments.against.empty()) arguments.runs.push_back(arguments.against);
  const Path page = arguments.out.empty() ? default_page(arguments.runs) : Path(arguments.out);
  if (!arguments.out.empty()) LEEWAY_TRY(check_output_file("--out", page, kReportFile));
  for (const auto& [option, folder] :
       {std::pair{"--csv", arguments.csv}, std::pair{"--tensorboard", arguments.tensorboard}}) {
    if (!folder.empty()) LEEWAY_TRY(check_output_folder(option, folder));
  }
  LEEWAY_TRY(check_different(arguments.runs));
  LEEWAY_ASSIGN(const std::vector<RunData> runs, read_runs(arguments.runs));
  PageOptions options = {.title = page_title(runs)};
  if (!arguments.against.empty()) options.notes = verdict(runs.front(), runs.back());
  LEEWAY_TRY(write_atomically(page, report_page(runs, options)));
  if (!arguments.csv.empty()) LEEWAY_TRY(write_csv(arguments.csv, runs));
  if (!arguments.tensorboard.empty()) LEEWAY_TRY(write_tensorboard(arguments.tensorboard, runs));
  if (arguments.json) {
    print_json(runs, page);
  } else {
    print_text(runs, arguments, page);
  }
  return {};
}

}  // namespace

void add_report(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "report", "Write an HTML report with charts and tables of one or more runs");
  command->footer(
      "Examples:\n"
      "  leeway report out/first\n"
      "  leeway report out/a out/b out/c --out compared.html\n"
      "  leeway report out/first --against out/synchronous\n"
      "  leeway report out/first --csv tables --tensorboard board\n"
      "The report is one file that needs no network. Runs may still be in progress.");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("RUN", arguments->runs, "Run folders")->required();
  command->add_option("--against", arguments->against,
                      "Run to compare the first one with: loss, speed, bytes and busy share");
  command->add_option(
      "--out", arguments->out,
      "Report file, .html [RUN/report.html; for several runs, report.html beside the first]");
  command->add_option("--csv", arguments->csv, "Also write the tables to this folder as CSV files");
  command->add_option("--tensorboard", arguments->tensorboard,
                      "Also write the curves to this folder for TensorBoard");
  command->add_flag("--json", arguments->json, "Print the numbers as JSON");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
