// A whole training run in its folder: config.toml, events.jsonl, summary.json, checkpoints/,
// tokenizer/. Starts, goes on from a checkpoint, evaluates, saves, and stops cleanly.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"
#include "run/recorder.h"
#include "worker/driver.h"

namespace leeway {

struct TrainingRequest {
  Recipe recipe;
  std::string recipe_text;  // config.toml: every value with where it came from
  Path folder;
  bool resume = false;
  std::vector<std::string> changes = {};  // of the recipe since the run began, in words
  int64_t stop_at = 0;  // updates after which this session ends; 0: at the end of the run
};

struct TrainingSummary {
  std::string json;       // summary.json, as written
  bool finished = false;  // false: stopped before the last update
  int64_t updates = 0;
};

// What must be the same for the same bits: the program's version and LibTorch's.
std::string program_version();

// Whether `folder` holds a run, and how far it came.
enum class RunFolderState { kNone, kUnfinished, kFinished };
Result<RunFolderState> run_folder_state(const Path& folder);

Result<TrainingSummary> train(const TrainingRequest& request, const Dataset& data, Driver& driver,
                              const TrainingObserver& observer);

}  // namespace leeway
