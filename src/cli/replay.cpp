// leeway replay RUN
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>

#include "base/hash.h"
#include "base/human.h"
#include "cli/commands.h"
#include "cli/recipe_data.h"
#include "config/load.h"
#include "drivers/sim/replay.h"
#include "drivers/threads/wall_clock.h"
#include "run/device.h"
#include "run/mesh_model.h"
#include "run/recorder.h"
#include "run/recording.h"
#include "run/run_folder.h"
#include "run/training_run.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

// Compares each replayed update with the recorded one.
class ReplayRecorder final : public Recorder {
 public:
  ReplayRecorder(const Recording& recording, Progress& progress)
      : recording_(recording), progress_(progress) {}

  void worked(const WorkRecord&) override {}
  void updated(const StageUpdate& update) override {
    if (!update.loss) return;
    auto& losses = losses_[update.update];
    losses[update.worker.replica] = *update.loss;
    std::map<ReplicaId, double> counted;
    for (const ReplicaId replica : recording_.members_at(update.update).members()) {
      const auto own = losses.find(replica);
      if (own == losses.end()) return;
      counted.insert(*own);
    }
    const double loss = mean_loss(counted);
    losses_.erase(update.update);
    const auto found = recording_.losses.find(update.update);
    // Replicas that were stopped apart have made some updates in different sessions: these have no
    // loss of their own in the log.
    const bool differs = found != recording_.losses.end() && found->second != loss;
    if (differs && !first_difference_) first_difference_ = update.update;
    progress_.show(static_cast<uint64_t>(update.update), fmt::format("loss {:.4f}", loss));
  }
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}

  std::optional<int64_t> first_difference() const { return first_difference_; }

 private:
  const Recording& recording_;
  std::map<int64_t, std::map<ReplicaId, double>> losses_;  // by update; incomplete updates only
  Progress& progress_;
  std::optional<int64_t> first_difference_;
};

Status compare(const Recording& recording, const ReplayRecorder& recorder, const Workers& workers) {
  const ReplicaSet all = ReplicaSet::first(std::ssize(recording.ends));
  const at::Tensor weights = weights_of(workers, recording.left.value_or(all));
  const std::string hash = hash_hex(hash_of(weights));
  if (recorder.first_difference()) {
    return Error{
        fmt::format("different: the loss of update {} differs from the recorded one; did the run "
                    "use another machine or another number of threads?",
                    *recorder.first_difference())};
  }
  if (hash != recording.weights_hash) {
    return Error{
        fmt::format("different: the final weights hash to {}, but {} was recorded; did the run use "
                    "another machine or another number of threads?",
                    hash, recording.weights_hash)};
  }
  fmt::print("identical: {} updates, {} pieces of work in the recorded order, weights_hash {}\n",
             human_count(static_cast<uint64_t>(recording.updates)),
             human_count(recording.work.size()), hash);
  return {};
}

Status run(const Path& folder) {
  const threads::WallClock clock;
  LEEWAY_ASSIGN(const Recording recording, read_recording(folder));
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(folder / "config.toml", {}));
  const Recipe& recipe = loaded.recipe;
  LEEWAY_TRY(check_device(recipe.run.device));
  set_up_compute(recipe);
  watch_for_interrupt();
  LEEWAY_ASSIGN(const Dataset data, open_data(with_data_found(recipe, folder), folder, clock));
  if (hash_hex(data.train.info().content_hash) != recording.data_hash) {
    return Error{fmt::format("the training data is not what {} was trained on; restore that data",
                             folder.string())};
  }
  const MeshData mesh = {.train = data.train, .valid = nullptr, .vocabulary = data.vocabulary};
  LEEWAY_ASSIGN(const RunPlan plan, plan_to_repeat(recording, recipe, mesh));
  const Workers workers = make_workers(recipe, mesh, plan);

  Progress progress(clock, "replaying", static_cast<uint64_t>(recording.updates));
  ReplayRecorder recorder(recording, progress);
  const bool loose = recording.resumed && recipe.mesh.replicas > 1 &&
                     recipe.averaging.merge == MergePolicy::kOnArrival;
  if (Status done = sim::replay(
          workers, recording.work, recorder,
          {.coverage = recording.coverage, .stop_wanted = interrupted, .left = recording.left});
      !done.ok()) {
    if (!loose) return done;
    return Error{done.error().message +
                 "; a run that merges on arrival and was resumed after a crash cannot be replayed"};
  }
  if (interrupted()) return stopped_error("stopped; the run folder is unchanged");
  progress.finish(fmt::format("{} updates", recording.updates));
  return compare(recording, recorder, workers);
}

}  // namespace

void add_replay(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "replay", "Replay a recorded run in the simulator and compare it bit for bit");
  command->footer(
      "Example:\n"
      "  leeway replay out/first\n"
      "Repeats every piece of work in the order of events.jsonl, on one thread, and checks that\n"
      "losses and weights are the same. What the log leaves out (run.log) is done in the order "
      "that\n"
      "the rest requires. Nothing in the run folder changes.");
  const auto folder = std::make_shared<std::string>();
  command->add_option("RUN", *folder, "Run folder")->required()->option_text("(required)");
  command->callback([folder, &chosen] { chosen = [=] { return run(*folder); }; });
}

}  // namespace leeway::cli
