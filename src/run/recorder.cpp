#include "run/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "recipe/lane_options.h"
#include "recipe/stage_options.h"
#include "run/mesh_model.h"
#include "run/summary.h"

namespace leeway {
namespace {

constexpr size_t kRecentLosses = 20;
constexpr double kSmoothing = 0.9;  // for the speed on display

}  // namespace

double mean_loss(const std::map<ReplicaId, double>& losses) {
  double sum = 0;
  for (const auto& [replica, loss] : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

RunRecorder::RunRecorder(const RunRecorderOptions& options, EventLog log, RunCounters counters,
                         NewestEvaluations valid)
    : options_(options),
      log_({.level = options.recipe.run.log,
            .plan = options.plan,
            .clock = options.clock,
            .seconds_before = counters.seconds,
            .warned = [this](const std::string& message) { warn(message); }},
           std::move(log)),
      counters_(std::move(counters)),
      updating_since_(counters_.seconds),
      table_(options.plan.replicas),
      members_(table_.members()),
      ledger_(options.plan.shape.stages, members_, options.plan.together()),
      writer_(options.folder, options.recipe.run.keep),
      valid_(valid) {}

void note_loss(RunCounters& counters, double loss) {
  counters.recent_losses.push_back(loss);
  if (counters.recent_losses.size() > kRecentLosses) counters.recent_losses.pop_front();
}

void RunRecorder::take_over(int64_t newest_table, int64_t tick) {
  took_over_ = goes_on_ = true;
  know_newest_checkpoint();
  newest_table_ = newest_table;
  log_.move_tick_to(tick);
  log(Event("taken_over").add("update", counters_.update));
  flush_log();
}

RunCounters with_bytes(RunCounters counters, const PurposeBytes& sent) {
  counters.bytes_activations += sent.activations;
  counters.bytes_gradients += sent.gradients;
  counters.bytes_averaging += sent.averaging;
  counters.bytes_evaluation += sent.evaluation;
  counters.bytes_copies += sent.copies;
  return counters;
}

RunCounters RunRecorder::counters(const PurposeBytes& sent) const {
  RunCounters now = with_bytes(counters_, sent);
  now.seconds = log_.seconds();
  return now;
}

PurposeBytes RunRecorder::sent_by_now() const {
  PurposeBytes sent;
  for (const auto& [worker, tally] : tallies_) sent += tally.bytes;
  return sent;
}

void RunRecorder::warn(const std::string& message) const {
  if (options_.observer.warned) options_.observer.warned(message);
}

// The others go on; what waited for a replica that has left waits no longer.
void RunRecorder::members(const Membership& table) {
  const ReplicaSet before = members_;
  Event event("members");
  event.add("update", counters_.update)
      .add("table", table.number())
      .add("replicas", text_of(table.members()));
  for (const auto& [replica, restart] : table.restarts()) {
    if (restart.epoch != table.number()) continue;
    event.add("joined", replica.value).add("from", restart.update);
  }
  if (!took_over_ || table.number() > newest_table_) log(event);
  note_restarts(table);
  flush_log();
  table_ = table;
  newest_table_ = std::max(newest_table_, table.number());
  members_ = table.members();
  if (members_.empty()) return;
  if (members_.size() < before.size()) {
    warn(fmt::format("{} of {} replicas are left, from update {} on", members_.size(),
                     options_.plan.replicas, counters_.update + 1));
  }
  complete_pending(INT64_MAX);
  if (const auto counting = ledger_.wait_for(members_)) plan_checkpoint(*counting);
}

// One that fills a place again counts from zero: what its predecessor has sent stays sent.
void RunRecorder::note_restarts(const Membership& table) {
  for (const auto& [worker, incarnation] : table.incarnations()) {
    int64_t& counted = incarnations_[worker];
    if (incarnation <= counted) continue;
    counted = incarnation;
    if (took_over_ && table.number() <= newest_table_) continue;  // another one has counted it
    const WorkTally before = std::exchange(tallies_[worker], {});
    log_replaced(worker, before.bytes);
    counters_ = with_bytes(counters_, before.bytes);
    for (auto& [update, mark] : marks_) mark = with_bytes(mark, before.bytes);
    evaluating_seconds_ -= before.evaluating.seconds() / static_cast<double>(tallies_.size());
    for (auto& [update, pending] : pending_) pending.parts.erase(worker);
  }
  for (const auto& [replica, restart] : table.restarts()) {
    if (restart.epoch != table.number() || restart.epoch <= newest_table_) continue;
    diverged_.remove(replica);
    if (!options_.observer.noted) continue;
    options_.observer.noted(fmt::format("replica {} is back, and goes on after update {}",
                                        replica.value, restart.update));
  }
}

// For one who takes over: nobody else knows any more what a lost worker has sent.
void RunRecorder::log_replaced(WorkerId worker, const PurposeBytes& sent) {
  if (sent.total() == 0) return;
  log(Event("replaced")
          .add("update", counters_.update)
          .add("replica", worker.replica.value)
          .add("stage", worker.stage.value)
          .add("bytes_activations", sent.activations)
          .add("bytes_gradients", sent.gradients)
          .add("bytes_averaging", sent.averaging)
          .add("bytes_evaluation", sent.evaluation)
          .add("bytes_copies", sent.copies));
}

// All have ended: the last updates may have no line, if another coordinator had heard of them.
void RunRecorder::finished(WorkerId worker, const Finished& finished) {
  finished_[worker] = finished;
  if (!took_over_ || members_.empty()) return;
  int64_t made = INT64_MAX;
  for (const ReplicaId replica : members_) {
    for (int64_t stage = 0; stage < options_.plan.shape.stages; ++stage) {
      const auto found = finished_.find({.replica = replica, .stage = {stage}});
      if (found == finished_.end()) return;
      made = std::min(made, found->second.updates);
    }
  }
  counters_.update = std::max(counters_.update, made);
}

void RunRecorder::updated(const StageUpdate& update) {
  if (!update.applied) return diverge(update);
  if (members_.empty()) return;
  if (update.update <= counters_.update) return;  // reported again
  newest_[update.worker] = std::max(newest_[update.worker], update.update);
  Pending& pending = pending_[update.update];
  const WorkTally& tally = tallies_[update.worker];
  pending.parts[update.worker] = {
      .squared_norm = update.squared_norm, .sent = tally.bytes, .evaluating = tally.evaluating};
  if (update.worker.stage.value == 0) pending.rate_factor = update.rate_factor;
  if (update.loss) pending.losses[update.worker.replica] = *update.loss;
  complete_pending(INT64_MAX);
}

// By those who were to make this update.
bool RunRecorder::is_complete(int64_t update, const Pending& pending) const {
  const ReplicaSet there = table_.members_at(update);
  const auto reported = std::ranges::count_if(
      pending.parts, [&](const auto& of) { return there.contains(of.first.replica); });
  return !there.empty() && reported == there.size() * options_.plan.shape.stages;
}

// Replicas that were stopped apart do not repeat the updates in between.
bool RunRecorder::all_have_made(int64_t update) const {
  const ReplicaSet there = table_.members_at(update);
  int64_t made = 0;
  for (const auto& [worker, newest] : newest_) {
    made += there.contains(worker.replica) && newest >= update ? 1 : 0;
  }
  return made == there.size() * options_.plan.shape.stages;
}

// In order: an update is logged when all replicas that are left have made it.
void RunRecorder::complete_pending(int64_t last) {
  while (!pending_.empty() && pending_.begin()->first <= last &&
         all_have_made(pending_.begin()->first)) {
    const auto first = pending_.extract(pending_.begin());
    if (is_complete(first.key(), first.mapped())) complete(first.key(), first.mapped());
  }
}

void RunRecorder::complete(int64_t update, const Pending& pending) {
  PurposeBytes sent;
  double evaluating = 0;
  for (const auto& [worker, tally] : tallies_) {
    const auto part = pending.parts.find(worker);  // none: of a replica that has left
    sent += part == pending.parts.end() ? tally.bytes : part->second.sent;
    const Nanos time = part == pending.parts.end() ? tally.evaluating : part->second.evaluating;
    evaluating += time.seconds() / static_cast<double>(tallies_.size());
  }
  const RunCounters counted = counters(sent);
  // Of the first one, nobody here knows what was before.
  if (took_over_ && update_seconds_ == 0) evaluating_seconds_ = evaluating;
  // Time spent evaluating does not count, though it may overlap with updating.
  const double evaluated = evaluating - std::exchange(evaluating_seconds_, evaluating);
  const double now = counted.seconds;
  const double seconds = std::max(1e-9, now - std::exchange(updating_since_, now) - evaluated);
  counters_.update = update;
  counters_.seconds_updating += seconds;
  update_seconds_ =
      update_seconds_ == 0 ? seconds : kSmoothing * update_seconds_ + (1 - kSmoothing) * seconds;
  const ReplicaSet there = table_.members_at(update);
  std::map<ReplicaId, double> losses = pending.losses;
  std::erase_if(losses, [&](const auto& of) { return !there.contains(of.first); });
  const double loss = mean_loss(losses);
  note_loss(counters_, loss);
  const int64_t missing = options_.plan.replicas - there.size();
  const int64_t planned = tokens_per_update(options_.recipe);
  const int64_t tokens = planned - planned / options_.plan.replicas * missing;
  counters_.tokens_missed += planned - tokens;
  double squared_norm = 0;
  for (const auto& [worker, part] : pending.parts) {
    const auto replicas = static_cast<double>(there.size());
    if (there.contains(worker.replica)) squared_norm += part.squared_norm / replicas;
  }
  constexpr size_t kMarks = 256;
  marks_[update] = counters_;
  marks_[update].seconds = now;
  if (marks_.size() > kMarks) marks_.erase(marks_.begin());
  const UpdateReport report = {.update = update,
                               .loss = loss,
                               .gradient_norm = std::sqrt(squared_norm),
                               .rate_factor = pending.rate_factor};
  Event event("update");
  event.add("update", report.update)
      .add("loss", report.loss)
      .add("gradient_norm", report.gradient_norm)
      .add("rate_factor", report.rate_factor)
      .add("tokens", tokens_read(counters_, options_.recipe))
      .add("seconds", now)
      .add("bytes_activations", counted.bytes_activations)
      .add("bytes_gradients", counted.bytes_gradients)
      .add("bytes_averaging", counted.bytes_averaging)
      .add("bytes_evaluation", counted.bytes_evaluation);
  if (options_.plan.replicas > 1)
    event.add("bytes_total_between_replicas", bytes_between_replicas(counted));
  if (there.size() < options_.plan.replicas) event.add("replicas", text_of(there));
  log(event);
  flush_log();  // followers see the update now, and a crash loses at most one
  if (options_.observer.updated) {
    options_.observer.updated(report, static_cast<double>(tokens) / update_seconds_);
  }
  watch_rounds();
}

void RunRecorder::watch_rounds() {
  const RoundStatistics rounds = round_statistics();
  watch_stability(rounds);
  const auto warning = contributors_warning(rounds, options_.recipe.averaging);
  if (!warning || std::exchange(warned_of_alone_, true)) return;
  warn(*warning);
  log(Event("alone")
          .add("update", counters_.update)
          .add("contributors", rounds.contributors_text()));
}

// The lag of a run that merges on arrival is not known in advance.
void RunRecorder::watch_stability(const RoundStatistics& rounds) {
  constexpr int64_t kEnough = 200;  // merges
  const Recipe& recipe = options_.recipe;
  if (rounds.merges < kEnough || recipe.averaging.merge != MergePolicy::kOnArrival) return;
  const bool asks = !recipe.averaging.guard && !warned_of_lag_;
  const auto warning =
      asks ? stability_warning(stability_options(recipe, rounds.recent_lag)) : std::nullopt;
  if (warning) {
    warned_of_lag_ = true;
    warn(*warning);
    log(Event("unstable").add("update", counters_.update).add("lag", rounds.recent_lag));
  }
  if (rounds.longest_interval > recipe.averaging.interval && !std::exchange(told_of_guard_, true)) {
    warn(
        fmt::format("averaging.guard: at a lag of {:.1f} updates rounds are now {} updates apart "
                    "to keep merging stable",
                    rounds.recent_lag, rounds.longest_interval));
    log(Event("guarded")
            .add("update", counters_.update)
            .add("lag", rounds.recent_lag)
            .add("interval", rounds.longest_interval));
  }
}

void RunRecorder::evaluated(const StageEvaluation& evaluation) {
  const bool own = !options_.plan.evaluates_model(evaluation.update);
  std::optional<Evaluated>& newest = own ? valid_.own : valid_.mean;
  if (newest && newest->update == evaluation.update) return;  // reported again
  if (evaluation.given_up) {
    log(Event("evaluation_given_up")
            .add("update", evaluation.update)
            .add("stage", evaluation.worker.stage.value));
    return warn(
        fmt::format("update {} is not evaluated: stage {} does not have the weights of all "
                    "replicas that stage 0 has",
                    evaluation.update, evaluation.worker.stage.value));
  }
  // The common model is that of all members, whoever evaluates it.
  const bool common = options_.plan.evaluation.of_common;
  const ReplicaSet whose = common ? members_ : evaluation.replicas;
  newest = Evaluated{evaluation.update, evaluation.loss, whose, own, common};
  log(Event(own ? "evaluated_own" : "evaluated")
          .add("update", evaluation.update)
          .add(own ? "valid_loss_own" : "valid_loss", evaluation.loss)
          .add("replicas", text_of(whose))
          .add("windows", evaluation.windows)
          .add("seconds", log_.seconds()));
  flush_log();  // it is not told again
  if (options_.observer.evaluated) options_.observer.evaluated(*newest);
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
  divergence_ = update;
}

}  // namespace leeway
