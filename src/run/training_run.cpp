#include "run/training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/names.h"
#include "base/process.h"
#include "checkpoint/checkpoint_folder.h"
#include "inference/evaluation.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"
#include "run/drivers.h"
#include "run/finished_workers.h"
#include "run/mesh_model.h"
#include "run/recorder.h"
#include "run/reshaped_state.h"
#include "run/run_folder.h"
#include "run/settled_state.h"
#include "run/shard_folder.h"
#include "run/summary.h"

namespace leeway {
namespace {

Path checkpoints_of(const Path& folder) { return folder / "checkpoints"; }

// The checkpoint that a session resumes from.
struct Start {
  SavedRun saved;
  Path checkpoint;
  NewestEvaluations valid = {};           // those of the checkpoint's weights, if done
  std::vector<std::string> damaged = {};  // why newer checkpoints could not be used
  std::vector<std::string> moves = {};    // what another mesh has made of it
};

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

Status check_fits(const Start& start, const RunCounters& fresh, const Workers& workers,
                  const Recipe& recipe, const Path& folder) {
  const SavedRun& saved = start.saved;
  if (saved.counters.data_hash != fresh.data_hash) {
    return usage_error(fmt::format(
        "the training data is not what {} was trained on so far; restore that data, or start a new "
        "run with another --out",
        folder.string()));
  }
  const int64_t parameters = parameters_of(workers);
  if (tokens_read(saved.counters, recipe) < -saved.counters.tokens_missed) {
    return Error{start.checkpoint.string() +
                 " has read less than nothing; resume from another checkpoint"};
  }
  if (saved.state.weights.numel() != parameters) {
    return usage_error(
        fmt::format("{} has {} parameters, but this recipe makes {}; use the run's own recipe",
                    start.checkpoint.string(), saved.state.weights.numel(), parameters));
  }
  const size_t buffers = saved.state.replicas.front().optimizer.buffers.size();
  if (buffers != buffer_count(workers)) {
    return usage_error(
        fmt::format("{} has {} optimizer buffers, but this recipe's optimizer needs {}; use the "
                    "run's own recipe",
                    start.checkpoint.string(), buffers, buffer_count(workers)));
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

Result<std::string> check_room_for(const Recipe& recipe, const Workers& workers,
                                   const HeldFolder& folder) {
  const int64_t value = recipe.run.precision == Precision::kFp64 ? 8 : 4;
  return check_room(
      {.free_bytes = folder.free_bytes(),
       .checkpoint_bytes = checkpoint_bytes(parameters_of(workers), value, recipe.mesh.replicas,
                                            buffer_count(workers)),
       .keep = recipe.run.keep,
       .there_already = std::ssize(list_checkpoints(folder.at("checkpoints")))},
      folder.path());
}

// Nothing is lost while this process lives, and a full disk can be freed.
Status save_at_last(RunRecorder& recorder, const TrainingObserver& observer,
                    const HeldFolder& folder) {
  Status saved = recorder.save_rest();
  while (!saved.ok() && folder.check_present().ok() && observer.wait_to_save &&
         observer.wait_to_save(Error{"the last checkpoint is not saved: " + saved.error().message}))
    saved = recorder.save_rest();
  if (recorder.lost_state()) saved = *recorder.lost_state();
  if (saved.ok()) return {};
  return Error{fmt::format("the last checkpoint is not saved: {}; {}", saved.error().message,
                           recorder.what_is_kept())};
}

RunCounters fresh_counters(const Dataset& data) {
  RunCounters counters;
  // A foreign token file does not know its tokenizer; the recipe may.
  counters.tokenizer_hash =
      data.tokenizer ? data.tokenizer->hash() : data.train.info().tokenizer_hash;
  counters.data_hash = data.train.info().content_hash;
  return counters;
}

// Workers that compete for cores also count waiting for one as work: readers must be able to say
// so.
Event with_cores(Event event, const Recipe& recipe) {
  if (const int64_t threads = computing_threads(recipe); threads > 0) {
    event.add("cores", core_count()).add("threads", threads);
  }
  return event;
}

void log_start(RunRecorder& recorder, const Recipe& recipe, const Dataset& data,
               const RunCounters& counters, int64_t parameters, const RunPlan& plan,
               const Path& folder) {
  Event started("started");
  started.add("version", program_version())
      .add("run", hash_hex(plan.run))
      .add("start", way_to_start(folder))
      .add("parameters", parameters)
      .add("train_tokens", data.train.info().count)
      .add("data_hash", hash_hex(counters.data_hash))
      .add("valid_hash", hash_hex(data.valid ? data.valid->info().content_hash : 0))
      .add("tokenizer_hash", hash_hex(counters.tokenizer_hash))
      .add("log", log_level_word(recipe.run.log));
  recorder.log(with_cores(std::move(started), recipe));
}

void log_resume(RunRecorder& recorder, const TrainingRequest& request, const Start& start,
                const RunPlan& plan, const TrainingObserver& observer) {
  const int64_t update = start.saved.counters.update;
  Event resumed("resumed");
  resumed.add("update", update);
  const auto& replicas = start.saved.state.replicas;
  for (size_t r = 0; r < replicas.size(); ++r) {  // only replicas that are ahead
    const int64_t own = replicas[r].optimizer.updates;
    if (own > update) resumed.add(fmt::format("update_{}", r), own);
  }
  resumed.add("version", program_version())
      .add("run", hash_hex(plan.run))
      .add("checkpoint", start.checkpoint.string())
      .add("log", log_level_word(request.recipe.run.log));
  if (const int64_t shift = start.saved.counters.shifted_allreduce_bytes; shift != 0)
    resumed.add("shifted_allreduce_bytes", shift);
  recorder.log(with_cores(std::move(resumed), request.recipe));
  std::vector<std::string> changes = request.changes;
  changes.insert(changes.end(), start.moves.begin(), start.moves.end());
  for (const std::string& change : changes) {
    if (observer.noted) observer.noted(change);
    recorder.log(Event("changed").add("update", update).add("change", change));
  }
}

Status write_log_at_last(RunRecorder& recorder, const TrainingObserver& observer,
                         const HeldFolder& folder) {
  const Error error{fmt::format(
      "the end of the log of {} cannot be written, so the run can be neither replayed nor drawn "
      "as a whole; weights and summary are saved",
      folder.path().string())};
  while (!recorder.log_is_written()) {
    const bool again = folder.check_present().ok() && observer.wait_to_save;
    if (!again || !observer.wait_to_save(error)) return error;
    recorder.flush_log();
  }
  return {};
}

Result<TrainingSummary> end(const TrainingRequest& request, const Dataset& data,
                            const std::optional<Start>& start, RunRecorder& recorder,
                            const TrainingObserver& observer) {
  const Recipe& recipe = request.recipe;
  const RunCounters counters = recorder.counters();
  const std::vector<StageSummary> stages = stage_summaries(recorder);
  int64_t parameters = 0;
  for (const StageSummary& stage : stages) parameters += stage.parameters;
  // A session that has saved nothing ends with the weights that it began with.
  const uint64_t weights_hash =
      recorder.weights_hash().value_or(start ? hash_of(start->saved.state.weights) : 0);
  const std::optional<Evaluated>& valid = recorder.valid().mean;
  std::optional<double> loss, bits;
  std::optional<int64_t> valid_update;
  if (valid) {
    loss = valid->loss;
    valid_update = valid->update;
    bits = bits_per_byte(valid->loss, data.valid->info());
  }
  // A run stopped after its last update but before the final evaluation is not finished.
  const bool trained = counters.update >= recipe.run.updates;
  const bool finished = trained && (!data.valid || valid_update == counters.update);
  const std::string json =
      summary_json({.recipe = recipe,
                    .counters = counters,
                    .parameters = parameters,
                    .tokens = tokens_read(counters, recipe),
                    .valid_loss = loss,
                    .valid_update = valid_update,
                    .valid_replicas = valid ? valid->replicas : ReplicaSet(),
                    .valid_own = recorder.valid().own,
                    .finished = finished,
                    .valid_bits_per_byte = bits,
                    .weights_hash = weights_hash,
                    .peak_rss_bytes = peak_rss_bytes(),
                    .stages = stages,
                    .rounds = recorder.round_statistics(),
                    .round_counts = round_counts(recorder),
                    .agreement = agreement(recorder),
                    .allreduce_bytes = usual_bytes(recipe, parameters, recorder)});
  recorder.log(Event("ended")
                   .add("update", counters.update)
                   .add("finished", finished)
                   .add("contributors", recorder.round_statistics().contributors_text())
                   .add("bytes_activations", counters.bytes_activations)
                   .add("bytes_gradients", counters.bytes_gradients)
                   .add("bytes_averaging", counters.bytes_averaging)
                   .add("bytes_evaluation", counters.bytes_evaluation)
                   .add("bytes_total_between_replicas", bytes_between_replicas(counters)));
  recorder.flush_log();
  LEEWAY_TRY(write_atomically(request.folder.at("summary.json"), json));
  LEEWAY_TRY(write_log_at_last(recorder, observer, request.folder));
  TrainingSummary summary = {json, finished, counters.update};
  summary.regroups = !finished && recorder.regroups();
  return summary;
}

}  // namespace

std::string program_version() {
  return fmt::format("{}, LibTorch {}", LEEWAY_VERSION, TORCH_VERSION);
}

namespace {

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

Result<TrainingSummary> train(const TrainingRequest& request, const Dataset& data, Driver& driver,
                              const TrainingObserver& observer) {
  const Recipe& recipe = request.recipe;
  const HeldFolder& folder = request.folder;
  RunCounters counters = fresh_counters(data);
  std::optional<Start> start;
  if (request.resume) {
    LEEWAY_ASSIGN(start, start_of(request, observer));
  }
  const MeshData mesh = {.train = data.train,
                         .valid = data.valid ? &*data.valid : nullptr,
                         .vocabulary = data.vocabulary,
                         .shift = start ? start->saved.counters.shifted_sequences : 0};
  RunPlan plan = make_plan(recipe, mesh);
  if (start) {
    LEEWAY_TRY(check_rounds(*start, plan));
    plan.first_update = start->saved.counters.update;
    plan.starts = starts_of(start->saved);
  }
  const std::string place = folder.path().string();
  plan.run = hash_bytes(std::as_bytes(std::span(place)));
  plan.recipe = hash_bytes(std::as_bytes(std::span(request.recipe_text)));
  if (request.stop_at > 0) plan.last_update = std::min(request.stop_at, plan.last_update);
  plan.last_update = std::max(plan.first_update, plan.last_update);
  const Workers workers = make_workers(recipe, mesh, plan);
  if (start) {
    LEEWAY_TRY(check_fits(*start, counters, workers, recipe, folder.path()));
    LEEWAY_TRY(restore(workers, start->saved.state));
    counters = start->saved.counters;
    const bool model = plan.evaluates_model(plan.first_update);
    const bool evaluated = (model ? start->valid.mean : start->valid.own).has_value();
    if (plan.evaluates(plan.first_update) && !evaluated) {
      for (const auto& worker : workers) worker->evaluate_first();
    }
  }

  LEEWAY_ASSIGN(const std::string crowded, check_room_for(recipe, workers, folder));
  if (!crowded.empty() && observer.warned) observer.warned(crowded);

  // Only now is it certain that this session takes place. Until it ends, the run is unfinished.
  LEEWAY_TRY(write_atomically(folder.at("config.toml"), request.recipe_text));
  if (!request.resume && data.tokenizer) {
    LEEWAY_TRY(make_folder(folder.at("tokenizer")));
    LEEWAY_TRY(data.tokenizer->save(folder.at("tokenizer")));
  }
  LEEWAY_ASSIGN(EventLog log, EventLog::open(folder.at("events.jsonl"), request.resume));
  std::error_code ignored;  // there may be no summary yet
  std::filesystem::remove(folder.at("summary.json"), ignored);
  RunRecorder recorder({.recipe = recipe,
                        .plan = plan,
                        .shape = workers.front()->compute()->stage().model().shape(),
                        .folder = folder,
                        .clock = driver.clock(),
                        .observer = observer},
                       std::move(log), counters, start ? start->valid : NewestEvaluations());
  if (start) {
    log_resume(recorder, request, *start, plan, observer);
  } else {
    log_start(recorder, recipe, data, counters, parameters_of(workers), plan, folder.path());
  }
  ShardFolder shards(folder, observer);
  driver.fill_places(
      [&](WorkerId id, const Entry& entry) { return make_worker(recipe, mesh, plan, id, entry); });
  LEEWAY_TRY(driver.run(workers, recorder, &shards));
  if (const std::optional<Error> failure = recorder.failure()) return *failure;
  LEEWAY_TRY(save_at_last(recorder, observer, folder));
  return end(request, data, start, recorder, observer);
}

}  // namespace leeway
