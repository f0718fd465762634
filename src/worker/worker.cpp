#include "worker/worker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {

Worker::Worker(WorkerId id, const RunPlan& plan, std::unique_ptr<StageCompute> compute,
               const Entry& entry)
    : id_(id),
      plan_(plan),
      incarnation_(entry.incarnation),
      schedule_(plan.shape, id.stage),
      warmup_before_(Schedule(plan.shape, {std::max<int64_t>(0, id.stage.value - 1)}).warmup()),
      compute_(std::move(compute)),
      saved_update_(plan.first_update_of(id.replica)),
      end_(std::max(plan.last_update_of(id.replica), plan.first_update_of(id.replica))),
      clip_norms_(plan.shape, id.stage),
      evaluations_(plan.evaluation_batches),
      rounds_(id, plan, compute_.get()),
      table_(entry.joins() ? Membership::before_joining(plan.replicas, id.replica)
                           : Membership(plan.replicas)),
      announce_due_(entry.joins()),
      tally_(id, plan) {
  // What it has on its disk may be a common model that the others have never seen.
  const bool common = std::ranges::any_of(plan.lanes, &LanePlan::common);
  if (entry.joins()) receiver_.emplace(common ? nullptr : entry.own_state, plan.checkpoint_every);
  counts_.updates = saved_update_;
  // A replica that is ahead of others takes part in their next checkpoint, with what it has.
  if (counts_.updates > plan.first_update) saved_update_ = -1;
  counts_.forwards = counts_.backwards = counts_.updates * plan.shape.update_every;
  at_boundary_ = trained();  // one that has nothing to train says so to the others
}

void Worker::evaluate_first() {
  LEEWAY_CHECK(counts_.forwards == counts_.updates * schedule_.update_every(),
               "evaluate_first() comes before the first piece of work");
  begin_evaluation();
  at_boundary_ = evaluations_.copy_due().has_value();
}

// The whole algorithm: first what others wait for, then what belongs to the boundary of an update,
// then the pipeline.
std::optional<Work> Worker::next() const {
  const CheckScope scope({id_, counts_.updates, plan_.seed});
  if (over_) return std::nullopt;
  if (!next_tables_.empty()) return adoption();
  if (report_due()) return reporting();
  if (saves_before_duties()) return boundary(WorkKind::kSave, counts_.updates);
  if (auto duty = rounds_.duty(counts_.updates)) return duty;
  if (auto part = transfer()) return part;
  if (!takes_part() || has_said_done_) return std::nullopt;
  if (const Turn turn = boundary_turn(); turn.due) return turn.work;
  return pipeline_turn();
}

// An answer that is made after the last merge would be in what is left over, and not in the model.
bool Worker::saves_before_duties() const {
  return rounds_.has_common() && takes_part() && !has_said_done_ && !at_boundary_ &&
         !schedule_.update_due(counts_) && save_due();
}

// Everything that changes or sends weights, other than the update itself, happens at the boundary
// after it: merges that are due, contributions to new rounds, their merges if there is no lag, and
// the copy for evaluation. Gradients are averaged before the update. Merges may also come inside an
// update, after a backward: so a lag counts updates in fractions.
Turn Worker::boundary_turn() const {
  const bool before = schedule_.update_due(counts_);
  const bool ends = !before && trained();
  if (inside_) {
    return rounds_.turn({.when = Boundary::When::kInsideUpdate,
                         .update = counts_.updates,
                         .updates = counts_.updates,
                         .backwards = counts_.backwards});
  }
  if (!before && !at_boundary_ && !ends) return {};
  Turn turn =
      rounds_.turn({.when = before ? Boundary::When::kBeforeUpdate : Boundary::When::kAfterUpdate,
                    .update = counts_.updates + (before ? 1 : 0),
                    .updates = counts_.updates,
                    .backwards = counts_.backwards,
                    .flushes = !before && flushes_here(),
                    .ends = ends,
                    .stops = end_.stop_wanted() || end_.named(),
                    .saved = !before && !at_boundary_});
  if (turn.due || before || !evaluations_.copy_due()) return turn;
  return {.due = true, .work = rounds_.copy_for_evaluation(*evaluations_.copy_due())};
}

// Counters alone decide between forward and backward. What has not arrived is waited for, never
// overtaken, so the arithmetic does not depend on timing.
std::optional<Work> Worker::pipeline_turn() const {
  constexpr auto kIdle = std::nullopt;
  if (done()) return kIdle;

  if (schedule_.update_due(counts_)) {
    const bool crowded =
        plan_.evaluates(counts_.updates + 1) && evaluations_.full() && !gives_up_evaluations();
    if (crowded && evaluation_arrived()) return evaluation();
    if (crowded || !clip_norms_.arrived(counts_.updates + 1)) return kIdle;
    return boundary(WorkKind::kUpdate, counts_.updates + 1);
  }
  if (save_due()) return boundary(WorkKind::kSave, counts_.updates);
  if ((evaluations_.has_turn() || trained()) && evaluation_arrived()) return evaluation();

  if (schedule_.wants_forward(counts_, flush())) {
    const bool arrived = is_first() || inbox_.activations.has(counts_.forwards);
    const Work forward = training(WorkKind::kForward, counts_.forwards);
    if (!arrived || !requested_saves_.may_begin(forward.update)) return kIdle;
    return forward;
  }
  if (schedule_.wants_backward(counts_, flush())) {
    const bool arrived = is_last() || inbox_.gradients.has(counts_.backwards);
    if (!arrived) return kIdle;
    return training(WorkKind::kBackward, counts_.backwards);
  }
  return kIdle;
}

bool Worker::done() const {
  if (has_said_done_) return true;  // what was reported does not change any more
  if (receiver_) return false;      // it has yet to begin
  if (has_late()) return false;
  if (!takes_part()) return !storing_;
  const bool evaluated = evaluations_.empty() || end_.stop_decided() || gives_up_evaluations();
  const bool saved = !save_due() && !storing_ && last_is_named_;
  return trained() && !boundary_turn().due && saved && evaluated;
}

// If other replicas have stopped, the copies that an evaluation waits for may never come.
bool Worker::gives_up_evaluations() const { return plan_.replicas > 1 && end_.stop_wanted(); }

// Something that others wait to hear, and that no other piece of work tells them.
bool Worker::report_due() const {
  if (tell_again_ || announce_due_ || names_end_now() || give_up_wanted_ || impossible_evaluation())
    return true;
  if (!stored_.empty() || names_last_state_now()) return true;
  return !told_done_ && done();
}

// Stage 0 names the end after its next update; if there is none, now.
bool Worker::names_end_now() const {
  return is_first() && end_.stop_wanted() && !end_.stop_decided() && trained();
}

// The session ends at an update that was saved before anybody knew that.
bool Worker::names_last_state_now() const { return trained() && !save_due() && !last_is_named_; }

// An evaluation that the stage before this one makes, but for which this stage lacks a copy.
std::optional<int64_t> Worker::impossible_evaluation() const {
  const auto first = inbox_.evaluations.first();
  if (!first) return std::nullopt;
  const int64_t update = first->first;
  if (!evaluations_.is_impossible(update) && !rounds_.evaluation_lacks_copies(update))
    return std::nullopt;
  return update;
}

UpdateId Worker::flush() const {
  const int64_t requested =
      requested_saves_.next_after(counts_.updates).value_or(end_.last_update());
  return plan_.next_flush(id_.replica, counts_.updates, std::min(requested, end_.last_update()));
}

bool Worker::flushes_here() const {
  return trained() || plan_.saves_at(id_.replica, counts_.updates) ||
         requested_saves_.checkpoint_at(counts_.updates);
}

bool Worker::save_due() const {
  const bool wanted = trained() || plan_.checkpoints(counts_.updates) ||
                      requested_saves_.checkpoint_at(counts_.updates);
  return plan_.saves && wanted && saved_update_ != counts_.updates;
}

bool Worker::evaluation_arrived() const {
  if (!evaluations_.ready()) return false;
  if (is_first()) return evaluations_.in_flight() <= plan_.shape.stages;
  return inbox_.evaluations.has({evaluations_.update(), evaluations_.batch()});
}

Work Worker::training(WorkKind kind, int64_t microbatch) const {
  const int64_t version = kind == WorkKind::kForward ? counts_.updates : versions_.front();
  return {.kind = kind,
          .index = microbatch,
          .update = schedule_.update_of({microbatch}).value + 1,
          .version = version,
          .delay = schedule_.delay({microbatch}, {version})};
}

Work Worker::boundary(WorkKind kind, int64_t update) const {
  return {.kind = kind, .index = update, .update = update, .version = counts_.updates, .delay = 0};
}

Work Worker::evaluation() const {
  return {.kind = WorkKind::kEvaluate,
          .index = evaluations_.batch(),
          .update = evaluations_.update(),
          .version = evaluations_.update(),
          .delay = 0};
}

Work Worker::adoption() const {
  Work adopt = boundary(WorkKind::kAdopt, counts_.updates);
  const Membership& newest = next_tables_.rbegin()->second;
  adopt.index = newest.number();
  adopt.replicas = newest.members();
  return adopt;
}

// One that joins asks for a part of its state, or takes it over; one that is asked sends it.
std::optional<Work> Worker::transfer() const {
  const bool takes_live = receiver_ && !plan_.regroups();
  const bool joins = takes_live && (receiver_->can_load() || receiver_->ask_due());
  const bool gives = takes_part() && donor_.is_asked();
  if (!joins && !gives) return std::nullopt;
  Work part = boundary(WorkKind::kTransfer, counts_.updates);
  part.index = joins ? receiver_->part() : donor_.part();
  return part;
}

Work Worker::reporting() const {
  Work report = boundary(WorkKind::kReport, counts_.updates);
  report.index = std::max(give_up_wanted_.value_or(-1), impossible_evaluation().value_or(-1));
  return report;
}

bool Worker::can_repeat(const Work& work) const {
  if (work.kind == WorkKind::kAdopt) return work.index > table_.number();
  if (!is_of_round(work.kind)) return pipeline_turn() == work;
  const int64_t position =
      inside_ ? counts_.backwards - counts_.updates * schedule_.update_every() : 0;
  if (work.kind == WorkKind::kMerge && work.position != position) return false;
  return rounds_.can_repeat(work, {.update_due = schedule_.update_due(counts_),
                                   .at_boundary = at_boundary_,
                                   .inside = inside_});
}

bool Worker::has_come_to(const Work& work) const {
  // An owner works for others whenever it is asked, which changes none of its own weights.
  if (work.kind == WorkKind::kReduce || work.kind == WorkKind::kRepeat) return true;
  if (counts_.updates != work.update) return false;
  if (work.position > 0) {
    return counts_.backwards == work.update * schedule_.update_every() + work.position;
  }
  return !rounds_.is_before_update(work) || schedule_.update_due(counts_);
}

std::optional<StageId> Worker::waits_for() const {
  const int64_t own = id_.stage.value;
  if (schedule_.update_due(counts_)) return clip_norms_.waits_for(counts_.updates + 1);
  if (!is_first() && schedule_.wants_forward(counts_, flush())) return StageId{own - 1};
  if (!is_last() && schedule_.wants_backward(counts_, flush())) return StageId{own + 1};
  return std::nullopt;
}

Held Worker::held() const {
  Held held = {.pipeline = std::ssize(inbox_.activations) + std::ssize(inbox_.gradients),
               .evaluations = std::ssize(inbox_.evaluations),
               .reports = std::ssize(reports_.kept())};
  held.pipeline += std::ssize(early_);
  rounds_.add_to(held);
  return held;
}

void Worker::drop_rounds() {
  rounds_.forget_in_compute();
  rounds_.flush();
  if (!trained()) rounds_.begin_session();
  at_boundary_ = inside_ = false;
}

}  // namespace leeway
