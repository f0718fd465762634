// `leeway train` with run.driver = "mpi".
#pragma once

#include "base/result.h"
#include "cli/training.h"

namespace leeway::cli {

// In every process that mpirun or srun has started; in one that was not, as the only rank. Rank 0
// loads the recipe, has the run's folder and speaks to the user. All return a failure of the same
// kind, and rank 0 has printed its sentence.
Status train_with_mpi(TrainArguments arguments);

}  // namespace leeway::cli
