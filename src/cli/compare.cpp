// leeway compare FILE
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/human.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/recipe_data.h"
#include "cli/validators.h"
#include "compare/comparison.h"
#include "compare/data_check.h"
#include "compare/plan.h"
#include "compare/results.h"
#include "compare/run_missing.h"
#include "compare/table.h"
#include "drivers/threads/wall_clock.h"
#include "report/report_page.h"
#include "report/run_follower.h"
#include "run/drivers.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct CompareArguments {
  std::string file;
  std::string out;
  std::vector<std::string> sets;
  int64_t jobs = 0;  // 0: as many as fit on the cores
  bool retry = false;
  bool json = false;
  bool check = false;

  Path folder() const { return out.empty() ? Path("out") / Path(file).stem() : Path(out); }
};

// Says which comparison a folder's results belong to.
constexpr const char* kStamp = "compare.json";

// The file's path relative to the folder, so both can be moved together.
std::string way_to(const Path& file, const Path& folder) {
  std::error_code code;  // no relative path: keep it as written
  const Path way = fs::relative(file, folder, code);
  return code || way.empty() ? file.string() : way.string();
}

Status check_stamp(const Path& folder, const Path& file) {
  std::error_code code;  // a missing folder counts as empty
  if (!fs::is_directory(folder, code) || fs::is_empty(folder, code)) return {};
  const Result<std::string> text = read_text(folder / kStamp);
  if (!text.ok()) {
    return usage_error(
        fmt::format("{} contains other files; choose another --out", folder.string()));
  }
  const Json stamp = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto word = [&](const char* key) {
    return stamp.is_object() && stamp.contains(key) && stamp[key].is_string()
               ? stamp[key].get<std::string>()
               : "?";
  };
  if (word("version") != LEEWAY_VERSION) {
    return usage_error(fmt::format(
        "{} has results from leeway {}, but this is {}: results of two versions cannot be "
        "compared; choose another --out",
        folder.string(), shown(word("version")), LEEWAY_VERSION));
  }
  if (word("file") != way_to(file, folder)) {
    const Path other = (folder / word("file")).lexically_normal();
    return usage_error(fmt::format("{} has results of {}, not of {}; choose another --out",
                                   folder.string(), shown(other.string()), file.string()));
  }
  return {};
}

// Held by this process and its children while they work in the folder.
class FolderLock {
 public:
  static Result<FolderLock> take(const Path& folder) {
    // Not closed on exec: children briefly outlive a comparison that is killed.
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);  // NOLINT
    if (descriptor < 0) return file_error("open", folder, errno);
    FolderLock lock(descriptor);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      return Error{fmt::format("another comparison is running in {}; wait for it, or stop it",
                               folder.string())};
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

Status remove_file(const Path& path) {
  std::error_code code;
  fs::remove(path, code);
  return code ? Status(file_error("remove", path, code.value())) : Status();
}

Result<std::vector<std::optional<RunOutcome>>> outcomes_so_far(const ComparisonPlan& plan,
                                                               const CompareArguments& arguments) {
  std::vector<std::optional<RunOutcome>> outcomes;
  for (const PlannedRun& run : plan.runs) {
    if (arguments.retry) LEEWAY_TRY(remove_file(run_failure(arguments.folder(), run)));
    outcomes.push_back(read_outcome(arguments.folder(), run, plan.comparison.target_loss));
  }
  return outcomes;
}

// Threads that the widest run keeps busy.
int64_t threads_of_a_run(const ComparisonPlan& plan) {
  int64_t most = 1;
  for (const PlannedRun& run : plan.runs) {
    const Recipe& recipe = run.recipe.recipe;
    const bool one = recipe.run.driver == DriverName::kSim;  // all workers on one thread
    const int64_t workers = one ? 1 : recipe.mesh.stages * recipe.mesh.replicas;
    most = std::max(most, workers * threads_per_worker(recipe));
  }
  return most;
}

int64_t jobs_of(const CompareArguments& arguments, const ComparisonPlan& plan) {
  if (arguments.jobs > 0) return arguments.jobs;
  return std::max<int64_t>(1, core_count() / threads_of_a_run(plan));
}

// Runs what is missing. Removes the results of an earlier call first: they would be out of date.
Result<std::vector<RunOutcome>> complete(const ComparisonPlan& plan,
                                         const CompareArguments& arguments) {
  const threads::WallClock clock;
  const Path folder = arguments.folder();
  survive_failed_writes();
  watch_for_save_requests();  // for the runs it starts: each saves by itself
  watch_for_interrupt();
  LEEWAY_ASSIGN(auto outcomes, outcomes_so_far(plan, arguments));
  LEEWAY_TRY(check_data_unchanged(plan, folder, outcomes,
                                  [&](const Recipe& recipe, const Path& run_folder) {
                                    return read_data(recipe, run_folder, clock);
                                  }));
  if (std::ranges::any_of(outcomes, [](const auto& outcome) { return !outcome; })) {
    for (const char* name : {"results.json", "table.md", "report.html"})
      LEEWAY_TRY(remove_file(folder / name));
    LEEWAY_TRY(run_missing(plan, folder, jobs_of(arguments, plan), clock, outcomes));
  }
  std::vector<RunOutcome> whole;
  for (auto& outcome : outcomes) whole.push_back(std::move(*outcome));
  return whole;
}

// One run per variant with a result, at its best rate and the first seed: all curves at once would
// hide each other. The table above them has the rest.
Result<std::vector<RunData>> runs_to_show(const ComparisonResults& results, const Path& folder) {
  std::vector<RunData> shown_runs;
  for (size_t variant = 0; variant < results.rows.size(); ++variant) {
    const ComparisonRow& row = results.rows[variant];
    if (!row.best) continue;
    const double rate = row.cells[*row.best].rate;
    const auto run = std::ranges::find_if(results.plan.runs, [&](const PlannedRun& planned) {
      return planned.variant == variant && planned.rate == rate;
    });
    LEEWAY_ASSIGN(RunData data,
                  read_run(run_folder(folder, *run), limits_for(results.rows.size())));
    data.name = row.name;
    shown_runs.push_back(std::move(data));
  }
  return shown_runs;
}

Status write_page(const ComparisonResults& results, const Path& folder) {
  const nlohmann::ordered_json comparison = comparison_json(results);
  LEEWAY_ASSIGN(const std::vector<RunData> runs, runs_to_show(results, folder));
  if (runs.empty()) return {};
  PageOptions options{.title = fmt::format("Comparison {}", comparison["title"].get<std::string>()),
                      .notes = {fmt::format("Curves show seed {} at each variant's best rate.",
                                            results.plan.seeds.front())},
                      .comparison = comparison};
  return write_atomically(folder / "report.html", report_page(runs, options));
}

// The command that reproduces the results.
std::string command_of(const CompareArguments& arguments) {
  std::string command =
      fmt::format("leeway compare {} --out {}", arguments.file, arguments.folder().string());
  for (const std::string& set : arguments.sets) command += fmt::format(" --set '{}'", set);
  return command;
}

// The output of --check: the size of the set, and which variants cannot run.
void print_plan(const ComparisonPlan& plan) {
  const Comparison& comparison = plan.comparison;
  uint64_t updates = 0;
  uint64_t tokens = 0;
  for (const PlannedRun& run : plan.runs) {
    if (!run.refused.empty()) continue;
    updates += static_cast<uint64_t>(run.recipe.recipe.run.updates);
    tokens += static_cast<uint64_t>(run_tokens(run.recipe.recipe));
  }
  fmt::print("{}: ok, {} ({}, {}, {}), {} updates, {} tokens\n", plan.source_name,
             counted(plan.runs.size(), "run"), counted(comparison.variants.size(), "variant"),
             counted(comparison.rates.size(), "rate"), counted(plan.seeds.size(), "seed"),
             human_count(updates), human_count(tokens));
  for (const std::string& part : plan.unfair) fmt::print("not fair: {}\n", part);
  for (size_t i = 0; i < comparison.variants.size(); ++i) {
    if (!plan.runs[i].refused.empty())
      fmt::print("will fail: {}: {}\n", shown(comparison.variants[i].name), plan.runs[i].refused);
  }
}

Status run(const CompareArguments& arguments) {
  const Path folder = arguments.folder();
  LEEWAY_ASSIGN(const ComparisonText text, load_comparison(arguments.file, arguments.sets));
  LEEWAY_ASSIGN(const ComparisonPlan plan, plan_comparison(text));
  if (arguments.check) {
    print_plan(plan);
    return {};
  }
  LEEWAY_TRY(check_stamp(folder, arguments.file));
  LEEWAY_TRY(make_folder(folder / "runs"));
  LEEWAY_ASSIGN(const FolderLock lock, FolderLock::take(folder));
  const Json stamp{{"version", LEEWAY_VERSION}, {"file", way_to(arguments.file, folder)}};
  LEEWAY_TRY(write_atomically(folder / kStamp, stamp.dump(2) + "\n"));
  LEEWAY_ASSIGN(const std::vector<RunOutcome> outcomes, complete(plan, arguments));
  LEEWAY_TRY(check_same_data(plan, outcomes));
  const ComparisonResults results{.plan = plan,
                                  .outcomes = outcomes,
                                  .rows = comparison_rows(plan, outcomes),
                                  .command = command_of(arguments)};
  const std::string table = comparison_markdown(results);
  const std::string json = results_json(results);
  LEEWAY_TRY(write_atomically(folder / "table.md", table));
  LEEWAY_TRY(write_atomically(folder / "results.json", json));
  LEEWAY_TRY(write_page(results, folder));
  fmt::print("{}", arguments.json ? json : table);
  if (std::ranges::any_of(results.rows, [](const auto& row) { return row.best.has_value(); }))
    return {};
  return Error{"no variant has a result"};
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("compare", "Train variants of a recipe and compare them");
  command->footer(
      "Examples:\n"
      "  leeway compare recipes/compare/quickstart.toml --out out/c\n"
      "  leeway compare recipes/compare/quickstart.toml --set run.updates=30 --set 'seeds=[1]'\n"
      "Writes table.md, results.json, report.html and all runs to --out. Ctrl-C keeps finished\n"
      "runs; the same command continues with the rest. File format: docs/compare.md");
  const auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option("FILE", arguments->file,
                   "TOML file with a recipe, seeds, rates and named variants")
      ->required()
      ->option_text("(required)");
  command->add_option("--out", arguments->out,
                      "Folder for the results [out/ plus the file's name]");
  command
      ->add_option("--set", arguments->sets,
                   "Override a recipe key for all variants that do not set it, or seeds, rates, "
                   "target_loss, fair; repeatable")
      ->option_text("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--jobs", arguments->jobs,
                   "Number of runs at a time [cores divided by threads per run]")
      ->check(at_least(1));
  command->add_flag("--retry", arguments->retry, "Rerun failed runs");
  CLI::Option* check =
      command->add_flag("--check", arguments->check, "Print what would run, without running it");
  command->add_flag("--json", arguments->json, "Print results.json to standard output")
      ->excludes(check);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
