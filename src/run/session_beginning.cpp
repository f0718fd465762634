#include "run/session_beginning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/names.h"
#include "checkpoint/checkpoint_folder.h"
#include "run/reshaped_state.h"
#include "run/settled_state.h"
#include "run/summary.h"

namespace leeway {
namespace {

Path checkpoints_of(const Path& folder) { return folder / "checkpoints"; }

// The newest intact checkpoint. A damaged one costs the updates since the one before it.
Result<Start> load_newest(const Path& folder) {
  Start start;
  const std::vector<Path> all = named_checkpoints(checkpoints_of(folder));
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    Result<SavedRun> saved = load_run(*it, /*with_optimizer=*/true);
    if (saved) {
      start.saved = std::move(*saved);
      start.checkpoint = *it;
      return start;
    }
    start.damaged.push_back(saved.error().message);
  }
  return Error{checkpoints_of(folder).string() +
               " has no intact checkpoint; start again: leeway train RECIPE --fresh --out " +
               shell_word(folder.string())};
}

// The recipe may have another number of replicas than the checkpoint: then the model, which is
// their mean, is another one.
Status fit_to_mesh(Start& start, const Recipe& recipe) {
  const size_t replicas = start.saved.state.replicas.size();
  Result<std::vector<std::string>> moves = reshape(start.saved, recipe);
  if (!moves) {
    return Error{fmt::format("{}: {}; resume from another checkpoint", start.checkpoint.string(),
                             moves.error().message)};
  }
  start.moves = std::move(*moves);
  if (start.saved.state.replicas.size() != replicas) start.valid = {};
  return {};
}

std::string clones_of(const Start& start) {
  const SavedRun& saved = start.saved;
  int64_t first = 0;  // that was saved
  while (std::ranges::count(saved.cloned, first) > 0) ++first;
  return fmt::format("{} was saved before replica {} had come: {} as a copy of replica {}",
                     start.checkpoint.string(), fmt::join(saved.cloned, ", "),
                     saved.cloned.size() == 1 ? "it begins" : "they begin", first);
}

Error other_data(const Path& folder) {
  return usage_error(fmt::format(
      "the training data is not what {} was trained on so far; restore that data, or start a new "
      "run with another --out",
      folder.string()));
}

Status check_fits(const Start& start, const RunCounters& fresh, const MeshSize& size,
                  const Recipe& recipe, const Path& folder) {
  const SavedRun& saved = start.saved;
  if (saved.counters.data_hash != fresh.data_hash) return other_data(folder);
  if (tokens_read(saved.counters, recipe) < -saved.counters.tokens_missed) {
    return Error{start.checkpoint.string() +
                 " has read less than nothing; resume from another checkpoint"};
  }
  if (saved.state.weights.numel() != size.parameters) {
    return usage_error(
        fmt::format("{} has {} parameters, but this recipe makes {}; use the run's own recipe",
                    start.checkpoint.string(), saved.state.weights.numel(), size.parameters));
  }
  const size_t buffers = saved.state.replicas.front().optimizer.buffers.size();
  if (buffers != size.buffers) {
    return usage_error(
        fmt::format("{} has {} optimizer buffers, but this recipe's optimizer needs {}; use the "
                    "run's own recipe",
                    start.checkpoint.string(), buffers, size.buffers));
  }
  return {};
}

// Whether this recipe's kinds of rounds can resume from the checkpoint.
Status check_rounds(const Start& start, const RunPlan& plan) {
  for (const ReplicaState& replica : start.saved.state.replicas) {
    for (const auto& lanes : replica.rounds) {
      // Earlier builds also saved a number for the lane of evaluations, as the last.
      const bool extra = lanes.size() == plan.lanes.size() + 1;
      if (lanes.size() == plan.lanes.size() || extra) continue;
      return usage_error(
          fmt::format("{} is from a run with different rounds; use the run's own recipe",
                      start.checkpoint.string()));
    }
  }
  return {};
}

// What is done cannot be undone: a run that is past the end it is given is not touched.
Status check_goes_on(const Start& start, const TrainingRequest& request) {
  int64_t done = start.saved.counters.update;
  for (const ReplicaState& replica : start.saved.state.replicas)
    done = std::max(done, replica.optimizer.updates);
  const std::string folder = request.folder.path().string();
  if (done > request.recipe.run.updates) {
    return usage_error(fmt::format(
        "{} has done {} updates already, but run.updates is {}; set it to {} or more to train "
        "further, or start a new run in another --out",
        folder, done, request.recipe.run.updates, done));
  }
  if (request.stop_at > 0 && done > request.stop_at) {
    return usage_error(fmt::format("{} has done {} updates already: it cannot stop at update {}",
                                   folder, done, request.stop_at));
  }
  return {};
}

RunCounters fresh_counters(const Dataset& data) {
  RunCounters counters;
  // A foreign token file does not know its tokenizer; the recipe may.
  counters.tokenizer_hash =
      data.tokenizer ? data.tokenizer->hash() : data.train.info().tokenizer_hash;
  counters.data_hash = data.train.info().content_hash;
  return counters;
}

// Where a session resumes, cut for its recipe's replicas.
Result<Start> start_of(const TrainingRequest& request, const TrainingObserver& observer) {
  const Path folder = request.folder.path();
  LEEWAY_ASSIGN(Start start, load_newest(folder));
  LEEWAY_TRY(check_goes_on(start, request));
  take_over_summary(folder / "summary.json", start.saved.counters, start.valid);
  if (observer.warned) {
    std::ranges::for_each(start.damaged, observer.warned);
    if (!start.saved.cloned.empty()) observer.warned(clones_of(start));
  }
  LEEWAY_ASSIGN(const std::vector<std::string> settled, settle(start.saved, request.recipe));
  if (observer.warned) std::ranges::for_each(settled, observer.warned);
  LEEWAY_TRY(fit_to_mesh(start, request.recipe));
  return start;
}

}  // namespace

Result<Beginning> beginning_of(const TrainingRequest& request, const Dataset& data, Crew& crew,
                               const TrainingObserver& observer) {
  Beginning beginning = {.counters = fresh_counters(data)};
  if (!request.resume) return beginning;
  LEEWAY_ASSIGN(beginning.running, crew.running());
  if (!beginning.running) {
    LEEWAY_ASSIGN(beginning.start, start_of(request, observer));
    return beginning;
  }
  if (request.stop_at > 0 && request.stop_at != beginning.running->last_update) {
    return usage_error(fmt::format(
        "a session goes on in {}, and ends at update {}: resume it without --stop-at, and stop it "
        "with Ctrl-C",
        request.folder.path().string(), beginning.running->last_update));
  }
  const uint64_t data_hash = beginning.counters.data_hash;
  beginning.counters = beginning.running->before;
  if (beginning.counters.data_hash == data_hash) return beginning;
  return other_data(request.folder.path());
}

RunPlan plan_from(const TrainingRequest& request, const MeshData& mesh,
                  const Beginning& beginning) {
  RunPlan plan = make_plan(request.recipe, mesh);
  const std::string place = request.folder.path().string();
  plan.run = hash_bytes(std::as_bytes(std::span(place)));
  plan.recipe = hash_bytes(std::as_bytes(std::span(request.recipe_text)));
  if (beginning.running) {
    plan.run = beginning.running->run;
    plan.recipe = beginning.running->recipe;
    plan.first_update = beginning.running->first_update;
    plan.last_update = beginning.running->last_update;
    plan.starts = beginning.running->starts;
    return plan;
  }
  if (beginning.start) {
    plan.first_update = beginning.start->saved.counters.update;
    plan.starts = starts_of(beginning.start->saved);
  }
  if (request.stop_at > 0) plan.last_update = std::min(request.stop_at, plan.last_update);
  plan.last_update = std::max(plan.first_update, plan.last_update);
  return plan;
}

Status check_beginning(const Beginning& beginning, const RunPlan& plan, const MeshSize& size,
                       const TrainingRequest& request) {
  LEEWAY_TRY(check_rounds(*beginning.start, plan));
  return check_fits(*beginning.start, beginning.counters, size, request.recipe,
                    request.folder.path());
}

}  // namespace leeway
