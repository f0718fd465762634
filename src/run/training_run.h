// A whole training run in its folder: config.toml, events.jsonl, summary.json, checkpoints/,
// tokenizer/. Starts, resumes from a checkpoint, evaluates, saves, and stops cleanly.
#pragma once

#include <string>
#include <vector>

#include "base/held_folder.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"
#include "run/crew.h"
#include "run/training_observer.h"

namespace leeway {

struct TrainingRequest {
  Recipe recipe;
  std::string recipe_text;  // config.toml: every value with where it came from
  const HeldFolder& folder;
  bool resume = false;
  std::vector<std::string> changes = {};  // to the recipe since the run began
  int64_t stop_at = 0;  // updates after which this session ends; 0: at the end of the run
};

// The program's version and LibTorch's: both must match to get the same bits.
std::string program_version();

Result<TrainingSummary> train(const TrainingRequest& request, const Dataset& data, Crew& crew,
                              const TrainingObserver& observer);

}  // namespace leeway
