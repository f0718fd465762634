// leeway train RECIPE
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/human.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/dashboard_arguments.h"
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
    fmt::print(stderr, "{}\n", changes.back());
  }
  return changes;
}

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
  observer.stop_wanted = interrupted;
  LEEWAY_ASSIGN(TrainingSummary summary, train(request, data, *driver, observer));
  progress.finish(fmt::format("{} of {} updates", summary.updates, updates));
  return summary;
}

// What the replicas sent each other, what all-reduce would have sent, and how rounds went.
void print_averaging(const nlohmann::json& json) {
  const auto sent = json["bytes_averaging"].get<uint64_t>();
  const auto usual = json["bytes_allreduce"].get<uint64_t>();
  if (sent == 0 || usual == 0) return;
  fmt::print("averaging sent {}, gradient all-reduce would have sent {}: {:.1f} %\n",
             human_bytes(sent), human_bytes(usual),
             100 * static_cast<double>(sent) / static_cast<double>(usual));
  std::string line = counted(json["rounds"].get<uint64_t>(), "round");
  if (!json["lag_mean"].is_null()) {
    line += fmt::format(", merged {:.1f} updates after sending (at most {})",
                        json["lag_mean"].get<double>(), json["lag_max"].get<int64_t>());
  }
  if (!json["consensus"].is_null()) {
    line +=
        fmt::format(", replicas {:.2g} % from their mean", 100 * json["consensus"].get<double>());
  }
  fmt::print("{}\n", line);
}

void print_summary(const TrainingSummary& summary, const Path& folder) {
  const auto json = nlohmann::json::parse(summary.json);
  const auto number = [&](const char* key) {
    return json[key].is_null() ? std::string("none")
                               : fmt::format("{:.4f}", json[key].get<double>());
  };
  fmt::print("{} parameters, {} tokens in {}, {} tokens/s\n",
             human_count(json["parameters"].get<uint64_t>()),
             human_count(json["tokens"].get<uint64_t>()),
             human_seconds(json["seconds"].get<double>()),
             human_count(static_cast<uint64_t>(json["tokens_per_second"].get<double>())));
  fmt::print("train loss {}, validation loss {}\n", number("train_loss"), number("valid_loss"));
  if (json["replicas"].get<int64_t>() > 1) print_averaging(json);
  fmt::print("run folder {}\n", folder.string());
}

Status run(const TrainArguments& arguments) {
  const threads::WallClock clock;
  const Path folder = arguments.folder();
  Path recipe_file = arguments.recipe.recipe;
  if (recipe_file.empty()) {
    if (!arguments.resume || arguments.out.empty()) {
      return usage_error("name a RECIPE, or a run to resume: --resume --out DIR");
    }
    recipe_file = folder / "config.toml";
  }
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(recipe_file, arguments.recipe.sets));
  const Recipe& recipe = loaded.recipe;
  LEEWAY_TRY(check_device(recipe.run.device));
  LEEWAY_ASSIGN(const bool earlier_run, check_run_folder(folder, arguments.existing()));
  std::vector<std::string> changes;
  if (arguments.resume) {
    LEEWAY_ASSIGN(changes, check_same_run(recipe, folder));
  }
  LEEWAY_ASSIGN(const auto dashboard, open_dashboard(arguments.dashboard, clock));
  const bool flash = recipe.run.precision == Precision::kBf16;
  set_up_compute(threads_per_worker(recipe), flash ? Repeatable::kInsist : Repeatable::kPrefer);
  keep_freed_memory();
  watch_for_interrupt();
  LEEWAY_ASSIGN(const Dataset data, open_data(recipe, folder, clock));
  LEEWAY_TRY(check_memory(recipe, data.vocabulary));
  for (const std::string& note : averaging_notes(loaded, data.vocabulary))
    fmt::print(stderr, "{}\n", note);
  if (earlier_run) {  // only now, when nothing else can keep the new run from starting
    LEEWAY_ASSIGN(const Path aside, move_run_aside(folder));
    fmt::print(stderr, "moved the earlier run in {} to {}\n", folder.string(), aside.string());
  }
  if (dashboard) dashboard->follow(folder, RunWriter::kThisProgram);
  LEEWAY_ASSIGN(const TrainingSummary summary, train_watched({.recipe = recipe,
                                                              .recipe_text = print_recipe(loaded),
                                                              .folder = folder,
                                                              .resume = arguments.resume,
                                                              .changes = changes,
                                                              .stop_at = arguments.stop_at},
                                                             data, clock));
  if (arguments.json) {
    fmt::print("{}", summary.json);
  } else {
    print_summary(summary, folder);
  }
  if (interrupted() && !summary.finished) {
    return Error{
        fmt::format("stopped at update {}; everything is saved, resume with: leeway train "
                    "--resume --out {}",
                    summary.updates, folder.string())};
  }
  return {};
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a model from a recipe");
  command->footer(
      "Examples:\n"
      "  leeway train recipes/quickstart.toml --out out/first\n"
      "  leeway train recipes/quickstart.toml --set run.updates=50 --set model.width=64\n"
      "  leeway train --resume --out out/first\n"
      "  leeway train recipes/quickstart.toml --dashboard 8080\n"
      "Ctrl-C drains the pipeline, saves a checkpoint and exits; --resume continues from there.");
  const auto arguments = std::make_shared<TrainArguments>();
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--out", arguments->out,
                      "Run folder [out/ plus the recipe's name]; a finished run in it is moved "
                      "aside");
  command->add_flag("--json", arguments->json, "Print summary.json to standard output");
  CLI::Option* resume =
      command->add_flag("--resume", arguments->resume, "Resume the unfinished run in --out");
  command->add_flag("--fresh", arguments->fresh, "Move an unfinished run aside and start over")
      ->excludes(resume);
  command
      ->add_option("--stop-at", arguments->stop_at,
                   "Save a checkpoint and exit after this many updates")
      ->check(at_least(1));
  add_dashboard_arguments(*command, "--dashboard", "--dashboard-", arguments->dashboard);
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
