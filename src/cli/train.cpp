// leeway train RECIPE
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/human.h"
#include "base/names.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/dashboard_arguments.h"
#include "cli/print_result.h"
#include "cli/recipe_arguments.h"
#include "cli/recipe_data.h"
#include "cli/validators.h"
#include "config/differences.h"
#include "config/load.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "recipe/averaging_report.h"
#include "recipe/memory_check.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/run_folder.h"
#include "run/training_run.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "terminal/signal_watch.h"

namespace leeway::cli {
namespace {

struct TrainArguments {
  RecipeArguments recipe;
  std::string out;
  bool json = false;
  bool resume = false;
  bool fresh = false;
  int64_t stop_at = 0;
  DashboardArguments dashboard;

  Path folder() const { return out.empty() ? Path("out") / Path(recipe.recipe).stem() : Path(out); }
  ExistingRun existing() const {
    if (resume) return ExistingRun::kResume;
    return fresh ? ExistingRun::kFresh : ExistingRun::kAsk;
  }
};

// A resumed run keeps its model, data and optimizer; its rates may change. Returns the changes in
// words.
Result<std::vector<std::string>> check_same_run(const Recipe& recipe, const Path& folder) {
  LEEWAY_ASSIGN(const LoadedRecipe begun, load_recipe(folder / "config.toml", {}));
  std::vector<std::string> changes;
  for (const Difference& change : differences(begun.recipe, recipe)) {
    if (!change.may_change) {
      return usage_error(fmt::format(
          "{} was {} when {} began and is {} now{}; resume with the old value, or start a new run "
          "in another --out",
          change.key, change.first, folder.string(), change.second,
          change.reason.empty() ? "" : fmt::format(" ({})", change.reason)));
    }
    changes.push_back(
        fmt::format("{} was {} and is now {}", change.key, change.first, change.second));
  }
  return changes;
}

// Between two attempts at the last checkpoint. Ctrl-C gives up; if the run ends because of one, the
// next ends the program.
class WaitForSpace {
 public:
  explicit WaitForSpace(Progress& progress) : progress_(progress) {}
  bool operator()(const Error& error) {
    if (tries_ == 0) {
      stopped_before_ = interrupted();
      progress_.note(fmt::format("warning: {}; tries again for {} minutes, Ctrl-C gives up",
                                 error.message, kTriesMax / 60));
    }
    wait_for_signal(Nanos{1'000'000'000});
    return ++tries_ < kTriesMax && (stopped_before_ || !interrupted());
  }

 private:
  static constexpr int kTriesMax = 300;  // one a second
  Progress& progress_;
  int tries_ = 0;
  bool stopped_before_ = false;
};

Result<TrainingSummary> train_watched(const TrainingRequest& request, const Dataset& data,
                                      const Clock& clock) {
  const auto updates = static_cast<uint64_t>(request.recipe.run.updates);
  const std::unique_ptr<Driver> driver = make_driver(request.recipe, data.vocabulary);
  Progress progress(clock, "training", updates);
  TrainingObserver observer;
  observer.updated = [&](const UpdateReport& report, double tokens_per_second) {
    progress.show(static_cast<uint64_t>(report.update),
                  fmt::format("loss {:.4f}  {} tokens/s", report.loss,
                              human_count(static_cast<uint64_t>(tokens_per_second))));
  };
  observer.evaluated = [&](const Evaluated& at) {
    progress.note(fmt::format("update {}: validation loss {:.4f}", at.update, at.loss));
  };
  observer.saved = [&](const Path& checkpoint) {
    progress.note(fmt::format("saved {}", checkpoint.string()));
  };
  observer.warned = [&](const std::string& warning) { progress.note("warning: " + warning); };
  observer.noted = [&](const std::string& note) { progress.note(note); };
  std::optional<SignalWatch> signals;
  observer.begun = [&](const Recorder::AskRun& ask) {
    signals.emplace([ask, told = int64_t{0}]() mutable {
      if (interrupted()) ask(Ask::kStop);
      if (save_requests() > std::exchange(told, save_requests())) ask(Ask::kSave);
    });
  };
  observer.wait_to_save = WaitForSpace(progress);
  LEEWAY_ASSIGN(TrainingSummary summary, train(request, data, *driver, observer));
  progress.finish(fmt::format("{} of {} updates", summary.updates, updates));
  return summary;
}

// What the replicas sent each other, what all-reduce would have sent, and how rounds went.
std::string averaging_lines(const nlohmann::json& json) {
  const auto sent = json["bytes_averaging"].get<uint64_t>();
  const auto usual = json["bytes_allreduce"].get<uint64_t>();
  if (sent == 0 || usual == 0) return "";
  std::string lines = fmt::format(
      "averaging sent {}, gradient all-reduce would have sent {}: {:.1f} %\n", human_bytes(sent),
      human_bytes(usual), 100 * static_cast<double>(sent) / static_cast<double>(usual));
  lines += counted(json["rounds"].get<uint64_t>(), "round");
  if (!json["lag_mean"].is_null()) {
    lines += fmt::format(", merged {:.1f} updates after sending (at most {})",
                         json["lag_mean"].get<double>(), json["lag_max"].get<int64_t>());
  }
  if (!json["consensus"].is_null()) {
    lines +=
        fmt::format(", replicas {:.2g} % from their mean", 100 * json["consensus"].get<double>());
  }
  lines += "\n";
  if (!json.contains("contributors")) return lines;  // written by an earlier version
  const auto contributors = json["contributors"].get<std::vector<int64_t>>();
  const auto means = std::accumulate(contributors.begin(), contributors.end(), int64_t{0});
  const auto percent = [&](int64_t some) {
    return 100 * static_cast<double>(some) / static_cast<double>(std::max<int64_t>(1, means));
  };
  return lines + fmt::format("means with all {} replicas: {:.1f} %, with one: {:.1f} %\n",
                             contributors.size(), percent(contributors.back()),
                             percent(contributors.front()));
}

std::string summary_lines(const TrainingSummary& summary, const Path& folder) {
  const auto json = nlohmann::json::parse(summary.json);
  const auto number = [&](const char* key) {
    return json[key].is_null() ? std::string("none")
                               : fmt::format("{:.4f}", json[key].get<double>());
  };
  std::string lines = fmt::format(
      "{} parameters, {} tokens in {}, {} tokens/s\n",
      human_count(json["parameters"].get<uint64_t>()), human_count(json["tokens"].get<uint64_t>()),
      human_seconds(json["seconds"].get<double>()),
      human_count(static_cast<uint64_t>(json["tokens_per_second"].get<double>())));
  lines +=
      fmt::format("train loss {} (mean of the last {}), validation loss {}\n", number("train_loss"),
                  counted(std::min<int64_t>(20, json["updates"].get<int64_t>()), "update"),
                  number("valid_loss"));
  if (json["replicas"].get<int64_t>() > 1) lines += averaging_lines(json);
  return lines + fmt::format("run folder {}\n", folder.string());
}

// The summary of a finished run that has all its updates: resumed, as schedulers do, it has nothing
// left to do.
std::optional<TrainingSummary> finished_summary(const Recipe& recipe, const Path& folder) {
  const Result<RunFolderState> state = run_folder_state(folder);
  if (!state.ok() || *state != RunFolderState::kFinished) return std::nullopt;
  const Result<std::string> text = read_text(folder / "summary.json");
  if (!text.ok()) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool all = json.is_object() && json.contains("updates") && json["updates"].is_number() &&
                   json["updates"] == recipe.run.updates;
  if (!all) return std::nullopt;
  return TrainingSummary{*text, /*finished=*/true, recipe.run.updates};
}

// The folder of the run: held from before, or an empty one.
Result<HeldFolder> take_folder(const TrainArguments& arguments,
                               std::optional<HeldFolder> existing) {
  if (arguments.resume) return std::move(*existing);
  LEEWAY_ASSIGN(NewRun begun, begin_run(arguments.folder(), std::move(existing)));
  if (begun.aside) {
    say(fmt::format("moved the earlier run in {} to {}\n", arguments.folder().string(),
                    begun.aside->string()));
  }
  return std::move(begun.folder);
}

Status run_in(const TrainArguments& arguments, const LoadedRecipe& loaded, const Clock& clock) {
  const Recipe& recipe = loaded.recipe;
  const Path folder = arguments.folder();
  LEEWAY_TRY(check_machine(loaded));
  LEEWAY_ASSIGN(auto existing, hold_existing_run(folder, arguments.existing()));
  std::vector<std::string> changes;
  if (arguments.resume) {
    LEEWAY_ASSIGN(changes, check_same_run(recipe, folder));
    if (const auto summary = finished_summary(recipe, folder)) {
      if (!changes.empty()) {
        return usage_error(fmt::format(
            "{} is finished, so this has no effect: {}; to train further: leeway resume {} --set "
            "run.updates=N",
            folder.string(), fmt::join(changes, ", "), shell_word(folder.string())));
      }
      say(fmt::format("{} is finished; to train further: leeway resume {} --set run.updates=N\n",
                      folder.string(), shell_word(folder.string())));
      print_result(arguments.json ? summary->json : summary_lines(*summary, folder));
      return {};
    }
  }
  LEEWAY_ASSIGN(const auto dashboard, open_dashboard(arguments.dashboard, clock));
  const bool flash = recipe.run.precision == Precision::kBf16;
  set_up_compute(threads_per_worker(recipe), flash ? Repeatable::kInsist : Repeatable::kPrefer);
  keep_freed_memory();
  const Recipe found = arguments.resume ? with_data_found(recipe, folder) : recipe;
  LEEWAY_ASSIGN(const Dataset data, open_data(found, folder, clock));
  LEEWAY_TRY(check_memory(recipe, data.vocabulary));
  for (const std::string& note : averaging_notes(loaded, data.vocabulary)) say(note + "\n");
  // Only now, when little can keep the new run from starting.
  LEEWAY_ASSIGN(const HeldFolder held, take_folder(arguments, std::move(existing)));
  if (!held.locked()) {
    say(
        fmt::format("warning: the file system of {} has no locks: make sure that no other process "
                    "trains there\n",
                    folder.string()));
  }
  if (dashboard) dashboard->follow(folder, RunWriter::kThisProgram);
  LEEWAY_ASSIGN(const TrainingSummary summary, train_watched({.recipe = recipe,
                                                              .recipe_text = print_recipe(loaded),
                                                              .folder = held,
                                                              .resume = arguments.resume,
                                                              .changes = changes,
                                                              .stop_at = arguments.stop_at},
                                                             data, clock));
  print_result(arguments.json ? summary.json : summary_lines(summary, folder));
  if (interrupted() && !summary.finished) {
    return stopped_error(
        fmt::format("stopped at update {}; everything is saved, resume with: leeway resume {}",
                    summary.updates, shell_word(folder.string())));
  }
  return {};
}

// `train --resume RUN` means the run, not a recipe of that name.
void name_the_run(TrainArguments& arguments) {
  std::error_code code;
  const Path& named = arguments.recipe.recipe;
  if (!arguments.resume || !arguments.out.empty() || !std::filesystem::is_directory(named, code))
    return;
  arguments.out = std::exchange(arguments.recipe.recipe, "");
}

Status run(TrainArguments arguments) {
  survive_failed_writes();
  watch_for_interrupt();
  watch_for_save_requests();
  name_the_run(arguments);
  std::error_code code;
  if (!arguments.resume &&
      std::filesystem::exists(Path(arguments.recipe.recipe) / "config.toml", code)) {
    return usage_error(fmt::format("{} is a run, not a recipe; to continue it: leeway resume {}",
                                   arguments.recipe.recipe, shell_word(arguments.recipe.recipe)));
  }
  Path recipe_file = arguments.recipe.recipe;
  if (recipe_file.empty()) {
    if (!arguments.resume || arguments.out.empty())
      return usage_error("name a RECIPE, or a run to resume: leeway resume RUN");
    recipe_file = arguments.folder() / "config.toml";
    if (!std::filesystem::exists(recipe_file, code)) {
      return usage_error(
          fmt::format("{} has no run to resume; name a run folder, or start one with leeway train",
                      arguments.folder().string()));
    }
  }
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_with_notes(recipe_file, arguments.recipe.sets));
  return run_in(arguments, loaded, threads::WallClock());
}

void add_session_arguments(CLI::App& command, TrainArguments& arguments) {
  command.add_flag("--json", arguments.json, "Print summary.json to standard output");
  command
      .add_option("--stop-at", arguments.stop_at,
                  "Save a checkpoint and exit after this many updates")
      ->check(at_least(1));
  add_dashboard_arguments(command, "--dashboard", "--dashboard-", arguments.dashboard);
}

constexpr const char* kSignals =
    "Ctrl-C and SIGTERM drain the pipeline, save a checkpoint and exit with 130 and 143; `leeway\n"
    "resume` continues from there. SIGUSR1 saves a checkpoint, and training goes on.";

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
  command->footer(std::string("Examples:\n"
                              "  leeway train recipes/quickstart.toml --out out/first\n"
                              "  leeway train recipes/quickstart.toml --set run.updates=50 "
                              "--set model.width=64\n"
                              "  leeway train recipes/quickstart.toml --dashboard 8080\n") +
                  kSignals);
  const auto arguments = std::make_shared<TrainArguments>();
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--out", arguments->out,
                      "Run folder [out/ plus the recipe's name]; a finished run in it is moved "
                      "aside");
  CLI::Option* resume = command->add_flag("--resume", arguments->resume,
                                          "Resume the unfinished run in --out, as `leeway resume`");
  command->add_flag("--fresh", arguments->fresh, "Move an unfinished run aside and start over")
      ->excludes(resume);
  add_session_arguments(*command, *arguments);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

void add_resume(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("resume", "Continue a run from its newest checkpoint");
  command->footer(std::string("Examples:\n"
                              "  leeway resume out/first\n"
                              "  leeway resume out/first --set run.updates=2000\n") +
                  kSignals);
  const auto arguments = std::make_shared<TrainArguments>();
  arguments->resume = true;
  command->add_option("RUN", arguments->out, "Run folder")->required()->option_text("(required)");
  add_set_option(*command, arguments->recipe);
  add_session_arguments(*command, *arguments);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
