// What the recorder makes of saved states: checkpoints, and what it says about them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "base/atomic_folder.h"
#include "checkpoint/checkpoint_folder.h"
#include "run/recorder.h"
#include "run/shard_folder.h"

namespace leeway {
namespace {

constexpr Nanos kBetweenTries{10'000'000'000};

}  // namespace

void RunRecorder::saved(const ShardSaved& saved) {
  if (!saved.stored()) return note_unsaved(saved);
  // A newer one may have made it needless before this coordinator heard of it again.
  std::error_code ignored;
  if (took_over_ && !std::filesystem::exists(shard_path(options_.folder, saved.file), ignored)) {
    return;
  }
  if (const auto counting = ledger_.add(saved)) plan_checkpoint(*counting);
}

// The disk is full, or too slow; a state that waits is not lost while its process lives.
void RunRecorder::note_unsaved(const ShardSaved& saved) {
  if (saved.replaced) {
    log(Event("save_replaced")
            .add("update", saved.update)
            .add("replica", saved.worker.replica.value)
            .add("stage", saved.worker.stage.value));
    if (warned_of_save_ >= 0 || std::exchange(warned_of_slow_disk_, true)) return;
    return warn(
        fmt::format("update {} of replica {} is not saved: the disk was still busy, and another "
                    "update is saved "
                    "in its place; raise run.checkpoint_every",
                    saved.update, saved.worker.replica.value));
  }
  if (saved.update > warned_of_save_) note_failed_save(saved.update, saved.error);
  if (!saved.again && members_.contains(saved.worker.replica)) lost_state_ = Error{saved.error};
}

void RunRecorder::note_failed_save(int64_t update, const std::string& reason) {
  warned_of_save_ = update;
  const auto kept = writer_.newest();
  warn(fmt::format("update {} is not saved: {}; it stays in memory and is tried again; {}", update,
                   reason,
                   kept ? fmt::format("the newest checkpoint is {}", kept->filename().string())
                        : std::string("there is no checkpoint yet")));
  log(Event("save_failed").add("update", update).add("reason", reason));
}

// A state is on disk some time after its update: the counters of a checkpoint are those of then.
RunCounters RunRecorder::counters_at(int64_t update) const {
  const auto later = marks_.upper_bound(update);
  if (later != marks_.begin()) return std::prev(later)->second;
  RunCounters now = counters_;
  now.seconds = log_.seconds();
  return now;
}

// Replicas that share a model have the same bits wherever they have the same answers, or the same
// updates.
void RunRecorder::compare_models(const std::vector<ShardSaved>& shards) {
  for (const ShardSaved& shard : shards) {
    const auto first = std::ranges::find_if(shards, [&](const ShardSaved& other) {
      return other.worker.stage == shard.worker.stage && other.update == shard.update &&
             answers_of(other.chunks) == answers_of(shard.chunks);
    });
    if (first->model_hash == shard.model_hash) continue;
    log(Event("different")
            .add("update", shard.update)
            .add("replica", shard.worker.replica.value)
            .add("stage", shard.worker.stage.value)
            .add("from", first->worker.replica.value));
    warn(
        fmt::format("replica {} has another model than replica {} at update {} (stage {}); is the "
                    "memory of one of them damaged?",
                    shard.worker.replica.value, first->worker.replica.value, shard.update,
                    shard.worker.stage.value));
  }
}

// What workers say again of it makes no other one.
void RunRecorder::know_newest_checkpoint() {
  const std::vector<Path> all = list_checkpoints(options_.folder.at("checkpoints"));
  if (all.empty()) return;
  const Result<Manifest> manifest = read_manifest(all.back());
  if (!manifest.ok()) return;
  ShardLedger::Counting newest = {.checkpoint = manifest->update, .shards = {}};
  for (const ManifestShard& shard : manifest->mesh.shards) {
    const auto file = std::ranges::find(manifest->files, shard.name, &ManifestEntry::name);
    if (file == manifest->files.end()) continue;
    newest.shards.push_back({.worker = shard.worker, .update = shard.update, .hash = file->hash});
  }
  ledger_.know(std::move(newest));
}

void RunRecorder::plan_checkpoint(const ShardLedger::Counting& counting) {
  compare_models(counting.shards);
  flush_log();
  // Replicas may be at different updates. What they did after they saved, a run resumed from here
  // does again, but for what an owner still answered.
  PurposeBytes sent;
  for (const auto& [worker, tally] : tallies_) {
    const auto saved = std::ranges::find(counting.shards, worker, &ShardSaved::worker);
    sent += saved == counting.shards.end() ? tally.bytes : saved->bytes;
  }
  const int64_t update = std::ranges::min(counting.shards, {}, &ShardSaved::update).update;
  CheckpointWriter::Job job = {.run = {.number = counting.checkpoint,
                                       .counters = with_bytes(counters_at(update), sent),
                                       .shape = options_.shape,
                                       .mesh = {.stages = options_.plan.shape.stages,
                                                .replicas = options_.plan.replicas,
                                                .table = table_.number(),
                                                .members = members_},
                                       .shards = {}},
                               .needless = ledger_.take_needless()};
  job.run.counters.update = update;
  for (const ShardSaved& shard : counting.shards) {
    job.run.shards.push_back({.path = shard.file,
                              .hash = shard.hash,
                              .place = {.name = {},
                                        .worker = shard.worker,
                                        .update = shard.update,
                                        .rounds = shard.rounds,
                                        .answers = answers_of(shard.chunks),
                                        .model_hash = shard.model_hash}});
  }
  // A newer one takes the place of one that still waits.
  if (to_write_) std::ranges::copy(to_write_->needless, std::back_inserter(job.needless));
  to_write_ = std::move(job);
  tried_at_.reset();
}

std::optional<Recorder::Chore> RunRecorder::take_chore() {
  const bool rests = tried_at_ && options_.clock.now() - *tried_at_ < kBetweenTries;
  if (writing_ || !to_write_ || rests) return std::nullopt;
  return write_chore();
}

Recorder::Chore RunRecorder::write_chore() {
  writing_ = true;
  const auto job = std::make_shared<const CheckpointWriter::Job>(*std::exchange(to_write_, {}));
  return [this, job]() -> std::function<void()> {
    const auto written = std::make_shared<const Result<JoinedRun>>(writer_.write(*job));
    return [this, job, written] { wrote(*job, *written); };
  };
}

void RunRecorder::wrote(const CheckpointWriter::Job& job, const Result<JoinedRun>& written) {
  writing_ = false;
  if (written.ok()) {
    write_error_.reset();
    weights_hash_ = written->weights_hash;
    return note_saved(job, written->path);
  }
  write_error_ = written.error();
  if (job.run.counters.update > warned_of_save_)
    note_failed_save(job.run.counters.update, written.error().message);
  if (to_write_) {
    std::ranges::copy(job.needless, std::back_inserter(to_write_->needless));
    return;
  }
  to_write_ = job;
  tried_at_ = options_.clock.now();
}

// Once per checkpoint, when it begins to count; more replicas may follow.
void RunRecorder::note_saved(const CheckpointWriter::Job& job, const Path& checkpoint) {
  saved_update_ = job.run.counters.update;
  checkpoint_ = checkpoint;
  if (std::exchange(saved_number_, job.run.number) == job.run.number) return;
  log(Event("saved").add("update", saved_update_).add("checkpoint", checkpoint.string()));
  flush_log();
  if (options_.observer.saved) options_.observer.saved(checkpoint);
}

std::string RunRecorder::what_is_kept() const {
  const auto kept = writer_.newest();
  return kept ? "the run can be resumed from " + kept->string() : "nothing is kept of this run";
}

Status RunRecorder::save_rest() {
  if (!to_write_) return {};
  write_chore()()();
  return to_write_ ? Status(*write_error_) : Status();
}

std::optional<Error> RunRecorder::failure() {
  if (!members_.empty() || regroups_) return std::nullopt;
  if (divergence_) return divergence(*divergence_);
  static_cast<void>(save_rest());
  return Error{
      fmt::format("no replica is left after update {}; {}", counters_.update, what_is_kept())};
}

Error RunRecorder::divergence(const StageUpdate& update) {
  drop_bad_checkpoint();
  const double norm = std::sqrt(update.total_squared_norm.value_or(update.squared_norm));
  const auto kept = writer_.newest();
  const std::string way_out =
      kept ? fmt::format("the last good checkpoint is {}: use --resume with", kept->string())
           : std::string("there is no checkpoint yet: start again with --fresh and");
  const std::string symptom = update.loss
                                  ? fmt::format("the loss is {:.4g} and the gradient norm {:.4g}",
                                                *update.loss, std::abs(norm))
                                  : fmt::format("the gradient norm of stage {} is {:.4g}",
                                                update.worker.stage.value, std::abs(norm));
  return Error{fmt::format(
      "training diverged at update {}: {}; {} a lower optimizer.rate or optimizer.matrix_rate, or "
      "a longer optimizer.warmup",
      update.update + 1, symptom, way_out)};
}

// A checkpoint of the weights that just diverged would only bring --resume back to the same place.
// Remove it if there is an earlier one to return to.
void RunRecorder::drop_bad_checkpoint() {
  // One that waits for room on the disk may be older, and good.
  if (to_write_ && to_write_->run.counters.update != counters_.update)
    static_cast<void>(save_rest());
  to_write_.reset();
  const Path checkpoints = options_.folder.at("checkpoints");
  if (saved_update_ != counters_.update || list_checkpoints(checkpoints).size() < 2) return;
  const Status status = remove_folder(checkpoints / checkpoint_.filename());
  if (!status) warn(status.error().message);
}

}  // namespace leeway
