// The recipe and the data of the run that make_sample() makes, for targets that repeat or resume
// it.
#pragma once

#include "config/load.h"
#include "data/dataset.h"
#include "run/training_run.h"

namespace leeway::fuzz {

Result<LoadedRecipe> sample_recipe(const Path& sample, const Path& file);
// Trains in `run`, or resumes what is there.
Result<TrainingSummary> train_sample(const Path& sample, const LoadedRecipe& loaded,
                                     const Path& run, bool resume);
Dataset sample_data(const Path& sample, const Recipe& recipe);

}  // namespace leeway::fuzz
