// Leeway as a library: trains a recipe in a folder, from the checks to the summary. `leeway train`
// only parses, calls this and prints.
//
// What goes wrong is an Error with a sentence, whatever the recipe, the files and the callbacks do:
// nothing is thrown, printed or aborted, and no signal handler is installed. What belongs to the
// whole process is set for the run: LibTorch's threads and its choice of repeatable kernels, and
// that freed memory stays with the process. So one run at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "base/files.h"
#include "base/result.h"
#include "config/load.h"
#include "run/run_folder.h"
#include "run/training_observer.h"

namespace leeway {

class Crew;

struct TrainOptions {
  Path folder;                               // of the run
  ExistingRun existing = ExistingRun::kAsk;  // what to do about a run that is there already
  int64_t stop_at = 0;  // updates after which this session ends; 0: at the end of the run
  // Who does the work; null: workers in this process. It outlives the call.
  Crew* crew = nullptr;
  // Where text is prepared if nothing can be written beside `folder`; empty: with temporary files.
  Path text_cache = {};
  TrainingObserver observer = {};
  // Text is being prepared: bytes read, and of how many (0: unknown). False stops with an error.
  std::function<bool(uint64_t done, uint64_t total)> reading = {};
  // There is something to train, and nothing has been read or written yet. An error ends it here.
  std::function<Status()> checked = {};
  // The folder is this run's now; an earlier run there has been moved aside.
  std::function<Status()> folder_taken = {};
};

// With kResume, the recipe may differ from the run's own in what may change, such as rates.
Result<TrainingSummary> train(const LoadedRecipe& loaded, const TrainOptions& options);

// The same for a recipe made in code; it is checked and completed first (check_recipe()).
Result<TrainingSummary> train(const Recipe& recipe, const TrainOptions& options);

}  // namespace leeway
