#include "run/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/atomic_folder.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

constexpr size_t kRecentLosses = 20;
constexpr double kSmoothing = 0.9;  // for the speed on display

// A run resumes with all its replicas: one that was lost begins as a copy of another.
void fill_in_lost(ModelState& state, const ReplicaSet& members, int64_t replicas) {
  if (members.size() == replicas) return;
  std::vector<ReplicaState> all;
  auto next = state.replicas.begin();
  for (int64_t r = 0; r < replicas; ++r) {
    all.push_back(members.contains({r}) ? *next++ : state.replicas.front());
  }
  state.replicas = std::move(all);
}

}  // namespace

double mean_loss(const std::map<ReplicaId, double>& losses) {
  double sum = 0;
  for (const auto& [replica, loss] : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

RunRecorder::RunRecorder(const RunRecorderOptions& options, EventLog log, RunCounters counters,
                         std::optional<Evaluated> valid)
    : options_(options),
      log_(std::move(log)),
      filter_(options.recipe.run.log, options.plan),
      counters_(std::move(counters)),
      start_(options.clock.now()),
      seconds_before_(counters_.seconds),
      updating_since_(seconds_before_),
      members_(Membership(options.plan.replicas).members()),
      saved_(options.plan.shape.stages, members_),
      writer_(options.folder, options.recipe.run.keep, options.clock),
      statistics_(options.plan),
      rounds_(options.plan),
      valid_(valid) {}

double RunRecorder::seconds_now() const {
  return seconds_before_ + (options_.clock.now() - start_).seconds();
}

RunCounters RunRecorder::counters(int64_t update) const {
  RunCounters now = counters_;
  now.seconds = seconds_now();
  for (const auto& [of, bytes] : bytes_) {
    if (of <= update) add(now, bytes);
  }
  return now;
}

void RunRecorder::add(RunCounters& counters, const PurposeBytes& bytes) {
  counters.bytes_activations += bytes.activations;
  counters.bytes_gradients += bytes.gradients;
  counters.bytes_evaluation += bytes.evaluation;
  counters.bytes_averaging += bytes.averaging;
}

// By update: workers may already be ahead of a checkpoint, and a run resumed from it does that work
// again.
void RunRecorder::count_bytes(const WorkRecord& record) { bytes_[record.work.update].add(record); }

void RunRecorder::warn(const std::string& message) const {
  if (options_.observer.warned) options_.observer.warned(message);
}

void RunRecorder::warn_of_log(const Error& error) const {
  warn(error.message + "; training goes on, and the log is written when it can be");
}

// Lines that cannot be written wait in memory. One warning is enough.
void RunRecorder::log(const Event& event) {
  if (const Status status = log_.write(event); !status) warn_of_log(status.error());
}

void RunRecorder::flush_log() {
  if (const Status status = log_.flush(); !status) warn_of_log(status.error());
}

void RunRecorder::worked(const WorkRecord& record) {
  statistics_.worked(record);
  rounds_.worked(record);
  count_bytes(record);
  if (is_evaluation(record.work)) {
    const double seconds = (record.times.end - record.times.begin).seconds();
    evaluating_seconds_ += seconds / static_cast<double>(worker_count());
  }
  if (!filter_.keeps(record)) return;
  WorkRecord timed = record;  // in the run's time, which continues from session to session
  const Nanos before = {static_cast<int64_t>(seconds_before_ * 1e9)};
  timed.times.begin = record.times.begin - start_ + before;
  timed.times.end = record.times.end - start_ + before;
  log(to_event(timed));
}

void RunRecorder::refused(const RefusedMessage& refusal) {
  const auto name = [](WorkerId id) {
    return id == kCoordinator ? std::string("coordinator")
                              : fmt::format("{} {}", id.replica.value, id.stage.value);
  };
  log(Event("refused")
          .add("update", counters_.update)
          .add("at", name(refusal.at))
          .add("from", name(refusal.from))
          .add("message", static_cast<int64_t>(refusal.kind))
          .add("reason", refusal.reason)
          .add("count", refusal.count));
}

// The others go on; what waited for a replica that has left waits no longer.
void RunRecorder::members(const Membership& table) {
  const int64_t before = members_.size();
  members_ = table.members();
  log(Event("members")
          .add("update", counters_.update)
          .add("table", table.number())
          .add("replicas", text_of(members_)));
  flush_log();
  if (members_.empty()) {
    const auto kept = writer_.newest();
    failure_ = Error{fmt::format(
        "no replica is left after update {}; {}", counters_.update,
        kept ? "the run can be resumed from " + kept->string() : "nothing is kept of this run")};
    return;
  }
  if (members_.size() < before) {
    warn(fmt::format("{} of {} replicas are left, from update {} on", members_.size(),
                     options_.plan.replicas, counters_.update + 1));
  }
  // The counters of a checkpoint are those of its update.
  if (const auto whole = saved_.wait_for(members_)) {
    complete_pending(std::ranges::min(*whole, {}, &StageState::update).update);
    write_checkpoint(*whole);
  }
  complete_pending(INT64_MAX);
}

void RunRecorder::updated(const StageUpdate& update) {
  if (!update.applied) return diverge(update);
  if (failure_) return;
  if (update.update <= counters_.update) return;  // reported again
  newest_[update.worker] = std::max(newest_[update.worker], update.update);
  Pending& pending = pending_[update.update];
  pending.squared_norms[update.worker] = update.squared_norm;
  if (update.worker.stage.value == 0) pending.rate_factor = update.rate_factor;
  if (update.loss) pending.losses[update.worker.replica] = *update.loss;
  complete_pending(INT64_MAX);
}

bool RunRecorder::is_complete(const Pending& pending) const {
  const auto reported = std::ranges::count_if(
      pending.squared_norms, [&](const auto& of) { return members_.contains(of.first.replica); });
  return reported == members_.size() * options_.plan.shape.stages;
}

// Replicas that were stopped apart do not repeat the updates in between.
bool RunRecorder::all_have_made(int64_t update) const {
  int64_t made = 0;
  for (const auto& [worker, newest] : newest_) {
    made += members_.contains(worker.replica) && newest >= update ? 1 : 0;
  }
  return made == members_.size() * options_.plan.shape.stages;
}

// In order: an update is logged when all replicas that are left have made it.
void RunRecorder::complete_pending(int64_t last) {
  while (!pending_.empty() && pending_.begin()->first <= last &&
         all_have_made(pending_.begin()->first)) {
    const auto first = pending_.extract(pending_.begin());
    if (is_complete(first.mapped())) complete(first.key(), first.mapped());
  }
}

void RunRecorder::complete(int64_t update, const Pending& pending) {
  const double now = seconds_now();
  // Time spent evaluating does not count, though it may overlap with updating.
  const double seconds = std::max(1e-9, now - updating_since_ - evaluating_seconds_);
  updating_since_ = now;
  evaluating_seconds_ = 0;
  counters_.update = update;
  counters_.seconds_updating += seconds;
  const auto ahead = bytes_.upper_bound(update);
  for (auto it = bytes_.begin(); it != ahead; ++it) add(counters_, it->second);
  bytes_.erase(bytes_.begin(), ahead);
  update_seconds_ =
      update_seconds_ == 0 ? seconds : kSmoothing * update_seconds_ + (1 - kSmoothing) * seconds;
  std::map<ReplicaId, double> losses = pending.losses;
  std::erase_if(losses, [this](const auto& of) { return !members_.contains(of.first); });
  const double loss = mean_loss(losses);
  counters_.recent_losses.push_back(loss);
  if (counters_.recent_losses.size() > kRecentLosses) counters_.recent_losses.pop_front();
  const int64_t missing = options_.plan.replicas - members_.size();
  const int64_t planned = tokens_per_update(options_.recipe);
  const int64_t tokens = planned - planned / options_.plan.replicas * missing;
  counters_.tokens_missed += planned - tokens;
  double squared_norm = 0;
  for (const auto& [worker, squared] : pending.squared_norms) {
    const auto replicas = static_cast<double>(members_.size());
    if (members_.contains(worker.replica)) squared_norm += squared / replicas;
  }
  const UpdateReport report = {.update = update,
                               .loss = loss,
                               .gradient_norm = std::sqrt(squared_norm),
                               .rate_factor = pending.rate_factor};
  Event event("update");
  event.add("update", report.update)
      .add("loss", report.loss)
      .add("gradient_norm", report.gradient_norm)
      .add("rate_factor", report.rate_factor)
      .add("tokens", update * planned - counters_.tokens_missed)
      .add("seconds", now)
      .add("bytes_activations", counters_.bytes_activations)
      .add("bytes_gradients", counters_.bytes_gradients)
      .add("bytes_averaging", counters_.bytes_averaging)
      .add("bytes_evaluation", counters_.bytes_evaluation);
  if (members_.size() < options_.plan.replicas) event.add("replicas", text_of(members_));
  log(event);
  flush_log();  // followers see the update now, and a crash loses at most one
  if (options_.observer.updated) {
    options_.observer.updated(report, static_cast<double>(tokens) / update_seconds_);
  }
  watch_stability();
  watch_contributors();
  if (writer_.again_due()) static_cast<void>(save_again());
}

// The lag of a run that merges on arrival is not known in advance.
void RunRecorder::watch_stability() {
  constexpr int64_t kEnough = 200;  // merges
  const Recipe& recipe = options_.recipe;
  const RoundStatistics rounds = rounds_.statistics();
  if (rounds.merges < kEnough || recipe.averaging.merge != MergePolicy::kOnArrival) return;
  const bool asks = !recipe.averaging.guard && !warned_of_lag_;
  const auto warning =
      asks ? stability_warning(stability_options(recipe, rounds_.recent_lag())) : std::nullopt;
  if (warning) {
    warned_of_lag_ = true;
    warn(*warning);
    log(Event("unstable").add("update", counters_.update).add("lag", rounds_.recent_lag()));
  }
  if (rounds_.longest_interval() > recipe.averaging.interval &&
      !std::exchange(told_of_guard_, true)) {
    warn(
        fmt::format("averaging.guard: at a lag of {:.1f} updates rounds are now {} updates apart "
                    "to keep merging stable",
                    rounds_.recent_lag(), rounds_.longest_interval()));
    log(Event("guarded")
            .add("update", counters_.update)
            .add("lag", rounds_.recent_lag())
            .add("interval", rounds_.longest_interval()));
  }
}

void RunRecorder::watch_contributors() {
  const auto warning = rounds_.take_warning(options_.recipe.averaging);
  if (!warning) return;
  warn(*warning);
  log(Event("alone")
          .add("update", counters_.update)
          .add("contributors", rounds_.statistics().contributors_text()));
}

void RunRecorder::predicted(const Prediction& prediction) {
  statistics_.predicted(prediction);
  if (!filter_.keeps_predictions_of(prediction.update)) return;
  log(Event("predicted")
          .add("replica", prediction.worker.replica.value)
          .add("stage", prediction.worker.stage.value)
          .add("update", prediction.update)
          .add("delay", prediction.delay)
          .add("prediction_error", prediction.error));
}

void RunRecorder::evaluated(const StageEvaluation& evaluation) {
  if (valid_ && valid_->update == evaluation.update) return;  // reported again
  valid_ = Evaluated{evaluation.update, evaluation.loss};
  log(Event("evaluated")
          .add("update", evaluation.update)
          .add("valid_loss", evaluation.loss)
          .add("windows", evaluation.windows)
          .add("seconds", seconds_now()));
  if (options_.observer.evaluated) options_.observer.evaluated(*valid_);
}

void RunRecorder::saved(StageState state) {
  if (auto whole = saved_.add(std::move(state))) write_checkpoint(*whole);
}

void RunRecorder::write_checkpoint(const std::vector<StageState>& states) {
  const double before = seconds_now();
  flush_log();  // the log is written before the checkpoint that relies on it
  // Replicas may be at different updates, and the slowest may have gone on since it saved.
  const auto [oldest, newest] = std::ranges::minmax(states, {}, &StageState::update);
  RunCounters counted = counters(newest.update);
  counted.update = oldest.update;
  ModelState state = join(states, options_.plan.shape.stages);
  weights_hash_ = hash_bytes({static_cast<const std::byte*>(state.weights.const_data_ptr()),
                              static_cast<size_t>(state.weights.nbytes())});
  fill_in_lost(state, members_, options_.plan.replicas);
  const Result<Path> written =
      writer_.write({.counters = counted, .shape = options_.shape, .state = std::move(state)});
  if (written.ok()) {
    note_saved(counted.update, *written);
  } else {
    const auto kept = writer_.newest();
    warn(fmt::format("update {} is not saved: {}; it stays in memory and is tried again; {}",
                     counted.update, written.error().message,
                     kept ? fmt::format("the newest checkpoint is {}", kept->filename().string())
                          : std::string("there is no checkpoint yet")));
    log(Event("save_failed").add("update", counted.update).add("reason", written.error().message));
  }
  updating_since_ += seconds_now() - before;  // time spent writing does not count
}

Status RunRecorder::save_again() {
  if (!has_unsaved()) return Error{"no checkpoint waits to be written"};
  const double before = seconds_now();
  const int64_t update = writer_.waiting()->counters.update;
  const Result<Path> written = writer_.try_again();
  updating_since_ += seconds_now() - before;
  if (!written.ok()) return written.error();
  note_saved(update, *written);
  return {};
}

void RunRecorder::note_saved(int64_t update, const Path& checkpoint) {
  saved_update_ = update;
  checkpoint_ = checkpoint;
  log(Event("saved").add("update", update).add("checkpoint", checkpoint.string()));
  flush_log();
  if (options_.observer.saved) options_.observer.saved(checkpoint);
}

void RunRecorder::diverge(const StageUpdate& update) {
  if (diverged_.contains(update.worker.replica)) return;  // as another stage has said
  diverged_.add(update.worker.replica);
  const double norm = std::sqrt(update.total_squared_norm.value_or(update.squared_norm));
  Event event("diverged");
  event.add("update", update.update)
      .add("replica", update.worker.replica.value)
      .add("stage", update.worker.stage.value)
      .add("gradient_norm", norm);
  if (update.loss) event.add("loss", *update.loss);
  log(event);
  flush_log();
  if (!members_.empty()) {
    return warn(
        fmt::format("replica {} diverged at update {} and has left the run; its loss or "
                    "gradients are not finite",
                    update.worker.replica.value, update.update + 1));
  }
  drop_bad_checkpoint();
  const auto kept = writer_.newest();
  const std::string way_out =
      kept ? fmt::format("the last good checkpoint is {}: use --resume with", kept->string())
           : std::string("there is no checkpoint yet: start again with --fresh and");
  const std::string symptom = update.loss
                                  ? fmt::format("the loss is {:.4g} and the gradient norm {:.4g}",
                                                *update.loss, std::abs(norm))
                                  : fmt::format("the gradient norm of stage {} is {:.4g}",
                                                update.worker.stage.value, std::abs(norm));
  failure_ = Error{fmt::format(
      "training diverged at update {}: {}; {} a lower optimizer.rate or optimizer.matrix_rate, or "
      "a longer optimizer.warmup",
      update.update + 1, symptom, way_out)};
}

// A checkpoint of the weights that just diverged would only bring --resume back to the same place.
// Remove it if there is an earlier one to return to.
void RunRecorder::drop_bad_checkpoint() {
  // One that waits for room on the disk may be older, and good.
  if (has_unsaved() && writer_.waiting()->counters.update != counters_.update)
    static_cast<void>(save_again());
  writer_.give_up();
  const Path checkpoints = options_.folder.at("checkpoints");
  if (saved_update_ != counters_.update || list_checkpoints(checkpoints).size() < 2) return;
  const Status status = remove_folder(checkpoints / checkpoint_.filename());
  if (!status) warn(status.error().message);
}

}  // namespace leeway
