// What the commands that train have in common: train, resume, coordinate, launch.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "cli/dashboard_arguments.h"
#include "cli/recipe_arguments.h"
#include "config/load.h"
#include "run/run_folder.h"

namespace CLI {
class App;
}

namespace leeway {
class Crew;
}

namespace leeway::cli {

struct TrainArguments {
  RecipeArguments recipe;
  std::string driver;
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

// RECIPE, --set, --out, --resume, --fresh and what add_session_arguments() adds.
void add_train_arguments(CLI::App& command, TrainArguments& arguments);
// --json, --stop-at and the dashboard's.
void add_session_arguments(CLI::App& command, TrainArguments& arguments);
extern const char* const kSignalsHelp;

// Ctrl-C and the others from now on are requests, and so is SIGUSR1.
void watch_signals();
// The file of the recipe, or of the run to resume.
Result<Path> recipe_file(TrainArguments& arguments);
// Both, and reads the recipe.
Result<LoadedRecipe> begin_training(TrainArguments& arguments);

// Who does the work; without a crew, workers in this process.
struct TrainingCrew {
  Crew* crew = nullptr;
  std::string resume = "leeway resume";       // how the run goes on, before its folder
  std::function<Status()> folder_taken = {};  // the run's folder is there; before training begins
  std::function<void(int64_t update)> updated = {};
};
// Trains, with a progress bar, and prints the summary.
Status train_and_print(const TrainArguments& arguments, const LoadedRecipe& loaded,
                       const Clock& clock, const TrainingCrew& crew = {});

}  // namespace leeway::cli
