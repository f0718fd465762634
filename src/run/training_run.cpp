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
#include "run/recorded_session.h"
#include "run/recorder.h"
#include "run/run_folder.h"
#include "run/session_beginning.h"
#include "run/shard_folder.h"
#include "run/summary.h"

namespace leeway {
namespace {

Result<std::string> check_room_for(const Recipe& recipe, const MeshSize& size,
                                   const HeldFolder& folder) {
  const int64_t value = recipe.run.precision == Precision::kFp64 ? 8 : 4;
  uint64_t bytes = checkpoint_bytes(size.parameters, value, recipe.mesh.replicas, size.buffers);
  if (recipe.optimizer.moments == MomentType::kBf16) {
    const int64_t moments = recipe.optimizer.name == UpdateRule::kSgd ? 1 : 2;
    bytes -= static_cast<uint64_t>(size.parameters * recipe.mesh.replicas * moments * value / 2);
  }
  return check_room({.free_bytes = folder.free_bytes(),
                     .checkpoint_bytes = bytes,
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

// A session that has saved nothing ends with the weights that it began with, or with those that an
// earlier coordinator of it has saved.
uint64_t hash_at_the_end(const RunRecorder& recorder, const std::optional<Start>& start,
                         const HeldFolder& folder) {
  if (recorder.weights_hash()) return *recorder.weights_hash();
  if (start) return hash_of(start->saved.state.weights);
  const std::vector<Path> all = list_checkpoints(folder.at("checkpoints"));
  if (all.empty()) return 0;
  const Result<SavedRun> newest = load_run(all.back(), /*with_optimizer=*/false);
  return newest.ok() ? hash_of(newest->state.weights) : 0;
}

Result<TrainingSummary> end(const TrainingRequest& request, const Dataset& data,
                            const std::optional<Start>& start, RunRecorder& recorder,
                            const TrainingObserver& observer) {
  const Recipe& recipe = request.recipe;
  const RunCounters counters = recorder.counters();
  const std::vector<StageSummary> stages = stage_summaries(recorder);
  int64_t parameters = 0;
  for (const StageSummary& stage : stages) parameters += stage.parameters;
  const uint64_t weights_hash = hash_at_the_end(recorder, start, request.folder);
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
  summary.regroups = !finished && recorder.goes_on_after_this();
  return summary;
}

}  // namespace

std::string program_version() {
  return fmt::format("{}, LibTorch {}", LEEWAY_VERSION, TORCH_VERSION);
}

namespace {

// Only now is it certain that this session takes place. Until it ends, the run is unfinished.
Status write_beginning(const TrainingRequest& request, const Dataset& data) {
  const HeldFolder& folder = request.folder;
  LEEWAY_TRY(write_atomically(folder.at("config.toml"), request.recipe_text));
  if (!request.resume && data.tokenizer) {
    LEEWAY_TRY(make_folder(folder.at("tokenizer")));
    LEEWAY_TRY(data.tokenizer->save(folder.at("tokenizer")));
  }
  std::error_code ignored;  // there may be no summary yet
  std::filesystem::remove(folder.at("summary.json"), ignored);
  return {};
}

}  // namespace

Result<TrainingSummary> train(const TrainingRequest& request, const Dataset& data, Crew& crew,
                              const TrainingObserver& observer) {
  const Recipe& recipe = request.recipe;
  const HeldFolder& folder = request.folder;
  LEEWAY_ASSIGN(Beginning beginning, beginning_of(request, data, crew, observer));
  const std::optional<Start>& start = beginning.start;
  const std::optional<RunningSession>& running = beginning.running;
  MeshData mesh = {.train = data.train,
                   .valid = data.valid ? &*data.valid : nullptr,
                   .vocabulary = data.vocabulary};
  if (start) mesh.shift = start->saved.counters.shifted_sequences;
  if (running) mesh.shift = running->shift;
  RunPlan plan = plan_from(request, mesh, beginning);
  plan.refills = crew.refills();
  const MeshSize size = mesh_size(recipe, data.vocabulary);
  SessionStart session = {.recipe = recipe,
                          .data = mesh,
                          .plan = plan,
                          .before = beginning.counters,
                          .goes_on = running.has_value()};
  if (start) {
    LEEWAY_TRY(check_beginning(beginning, plan, size, request));
    beginning.counters = start->saved.counters;
    const bool model = plan.evaluates_model(plan.first_update);
    const bool evaluated = (model ? start->valid.mean : start->valid.own).has_value();
    session.state = &start->saved.state;
    session.evaluates_first = plan.evaluates(plan.first_update) && !evaluated;
  }
  LEEWAY_TRY(crew.prepare(session));

  LEEWAY_ASSIGN(const std::string crowded, check_room_for(recipe, size, folder));
  if (!crowded.empty() && observer.warned) observer.warned(crowded);
  if (!running) LEEWAY_TRY(write_beginning(request, data));
  RecordedSession recorded = {.counters = beginning.counters};
  if (start) recorded.valid = start->valid;
  if (running) {
    LEEWAY_ASSIGN(recorded, read_recorded_session({.log = folder.at("events.jsonl"),
                                                   .number = running->number,
                                                   .before = beginning.counters},
                                                  recipe, plan));
    recorded.counters.seconds = std::max(recorded.counters.seconds, running->seconds);
  }
  LEEWAY_ASSIGN(EventLog log, EventLog::open(folder.at("events.jsonl"), request.resume));
  RunRecorder recorder({.recipe = recipe,
                        .plan = plan,
                        .shape = size.shape,
                        .folder = folder,
                        .clock = crew.clock(),
                        .observer = observer},
                       std::move(log), recorded.counters, recorded.valid);
  if (running) {
    recorder.take_over(recorded.table, recorded.tick);
  } else if (start) {
    log_resume(recorder, request, *start, plan, observer);
  } else {
    log_start(recorder, recipe, data, recorded.counters, size.parameters, plan, folder.path());
  }
  recorder.flush_log();  // before workers begin, who may outlive this process
  ShardFolder shards(folder, observer, /*keeps=*/running.has_value());
  LEEWAY_TRY(crew.run(recorder, shards));
  if (const std::optional<Error> failure = recorder.failure()) return *failure;
  LEEWAY_TRY(save_at_last(recorder, observer, folder));
  return end(request, data, start, recorder, observer);
}

}  // namespace leeway
