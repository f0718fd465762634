// How a session of a run begins: with new weights, from the newest checkpoint that is intact and
// fits the recipe, or in the middle of a session that goes on without its coordinator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "data/dataset.h"
#include "run/crew.h"
#include "run/mesh_model.h"
#include "run/training_observer.h"
#include "run/training_run.h"

namespace leeway {

// The checkpoint that a session resumes from.
struct Start {
  SavedRun saved;
  Path checkpoint;
  NewestEvaluations valid = {};           // those of the checkpoint's weights, if done
  std::vector<std::string> damaged = {};  // why newer checkpoints could not be used
  std::vector<std::string> moves = {};    // what another mesh has made of it
};

// How a session begins: anew, from a checkpoint, or in the middle of one that goes on.
struct Beginning {
  std::optional<Start> start = {};
  std::optional<RunningSession> running = {};
  RunCounters counters = {};  // of the run, when the session begins or began
};

Result<Beginning> beginning_of(const TrainingRequest& request, const Dataset& data, Crew& crew,
                               const TrainingObserver& observer);
RunPlan plan_from(const TrainingRequest& request, const MeshData& mesh, const Beginning& beginning);
// Whether this recipe can go on from there.
Status check_beginning(const Beginning& beginning, const RunPlan& plan, const MeshSize& size,
                       const TrainingRequest& request);

}  // namespace leeway
