// The worker's last two verbs: run() computes, finish() counts, sends and reports.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/worker.h"

namespace leeway {

Outcome Worker::run(const Work& work) {
  const CheckScope scope({id_, counts_.updates, plan_.seed});
  Outcome outcome;
  rounds_.began(work);
  if (compute_ == nullptr) return outcome;
  switch (work.kind) {
    case WorkKind::kForward:
      outcome.payload =
          compute_->forward({work.index}, work.delay, inbox_.activations.get(work.index));
      break;
    case WorkKind::kBackward:
      run_backward(work, outcome);
      break;
    case WorkKind::kUpdate:
      run_update(work, outcome);
      break;
    case WorkKind::kSave:
      run_save(outcome);
      break;
    case WorkKind::kEvaluate:
      run_evaluation(work, outcome);
      break;
    case WorkKind::kAdopt:
      run_adoption(work, outcome);
      break;
    case WorkKind::kTransfer:
      run_transfer(outcome);
      break;
    case WorkKind::kReport:
      if (work.index >= 0) compute_->forget_evaluations(work.index);
      if (done() && !has_said_done_) outcome.hash = compute_->model_hash();
      break;
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
      rounds_.run(work, outcome);
      // Averaged gradients have different norms from this worker's own.
      if (clip_norms_.shared() && rounds_.completes_gradients(work)) {
        outcome.clip_norms = compute_->gradient_norms();
      }
      break;
  }
  return outcome;
}

void Worker::run_backward(const Work& work, Outcome& outcome) {
  outcome.payload = compute_->backward({work.index}, inbox_.gradients.get(work.index));
  const bool completes = counts_.backwards + 1 == work.update * schedule_.update_every();
  if (completes && clip_norms_.shared()) outcome.clip_norms = compute_->gradient_norms();
}

void Worker::run_update(const Work& work, Outcome& outcome) {
  outcome.total_norm = clip_norms_.total(work.update);
  outcome.update = compute_->update(outcome.total_norm);
  outcome.prediction = compute_->take_prediction();
}

void Worker::run_save(Outcome& outcome) {
  rounds_.forget_in_compute();
  outcome.state = compute_->state();
  outcome.state->model_hash = compute_->model_hash();
  describe_save(*outcome.state);
}

void Worker::describe_save(StageState& state) const {
  const auto requested = requested_saves_.checkpoint_at(counts_.updates);
  state.rounds = rounds_.rounds_begun();
  state.chunks = rounds_.positions();
  state.last = trained();
  state.checkpoint = trained() ? counts_.updates : requested.value_or(counts_.updates);
}

void Worker::run_evaluation(const Work& work, Outcome& outcome) {
  outcome.payload = compute_->evaluate(work.update, work.index,
                                       inbox_.evaluations.get({work.update, work.index}));
  if (!evaluations_.at_last_batch()) return;
  const StageEvaluation evaluation = compute_->end_evaluation(work.update);
  if (!is_last()) return;
  outcome.evaluation = evaluation;
  outcome.evaluation->replicas = evaluations_.replicas();
}

void Worker::finish(const Work& named, Outcome outcome, Outbox& outbox, Journal& journal) {
  const CheckScope scope({id_, counts_.updates, plan_.seed});
  rounds_.note_time(named.kind, outcome.times);
  Work work = without_refused(named, outcome);
  // A replay says what it was.
  if (work.kind == WorkKind::kAdopt && work.have.empty()) work.have = rounds_.have();
  switch (work.kind) {
    case WorkKind::kForward:
      finish_forward(work, outcome);
      break;
    case WorkKind::kBackward:
      finish_backward(work, outcome);
      break;
    case WorkKind::kUpdate:
      finish_update(work, outcome);
      break;
    case WorkKind::kSave:
      log_late(journal, /*wait=*/true);  // its device has stood still to make the copy
      finish_save(outcome);
      break;
    case WorkKind::kEvaluate:
      finish_evaluation(work, outcome);
      break;
    case WorkKind::kAdopt:
      log_late(journal, /*wait=*/true);  // of the time before
      finish_adoption(work, outcome);
      break;
    case WorkKind::kTransfer:
      log_late(journal, /*wait=*/true);
      finish_transfer(work, outcome, outbox);
      break;
    case WorkKind::kReport:
      finish_report(work, outcome, outbox);
      break;
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
      finish_round(work, outcome, outbox);
      break;
  }
  // Recorded before any other worker can act on it, so that the log is in a causal order; work of a
  // GPU is recorded a few pieces later.
  WorkRecord record = {.worker = id_, .work = work, .times = outcome.times};
  for (const Message& message : outgoing_) record.bytes_sent += message.payload_bytes;
  const bool logged = work.kind != WorkKind::kAwait && work.kind != WorkKind::kReport;
  if (logged) {
    late_.push_back({.record = std::move(record),
                     .when_done = std::move(outcome.when_done),
                     .update = std::move(outcome.update),
                     .prediction = std::move(outcome.prediction),
                     .norms = std::move(outcome.round_norms)});
  }
  log_late(journal, /*wait=*/false);
  // Nobody asks a worker that has finished, but it still works for others.
  if (logged && has_said_done_) report(presence());
  outcome = {};  // a tensor that was sent belongs to its receiver alone
  send_all(outbox, journal);
}

void Worker::send_all(Outbox& outbox, Journal& journal) {
  send_reports();
  log_refusals(journal);
  // Reports first: what one does after it has finished is told before others can finish by it.
  for (std::vector<Message>* messages : {&outgoing_reports_, &outgoing_}) {
    for (Message& message : *messages) {
      message.envelope = envelope();
      outbox.send(std::move(message));
    }
    messages->clear();
  }
  if (to_store_) outbox.store(std::exchange(to_store_, nullptr));
}

void Worker::settle(Outbox& outbox, Journal& journal) {
  const CheckScope scope({id_, counts_.updates, plan_.seed});
  log_late(journal, /*wait=*/false);
  send_all(outbox, journal);
}

void Worker::log_late(Journal& journal, bool wait) {
  for (; !late_.empty(); late_.pop_front()) {
    LateWork& late = late_.front();
    if (late.when_done) {
      const std::optional<WorkTimes> times = late.when_done(wait);
      if (!times) return;
      late.record.times = *times;
    }
    if (late.update) note_update(late.update->read());
    if (late.prediction) {
      const Prediction prediction = late.prediction->read();
      journal.predicted(prediction);
      tally_.predicted(prediction);
    }
    if (late.norms) {
      late.record.norms = late.norms->read();
      if (!late.norms->sums.here()) refuse_late(late);
    }
    journal.worked(late.record);
    tally_.worked(late.record);
  }
}

void Worker::note_update(const StageUpdate& update) {
  if (diverged_) return;  // what a GPU was given after that one is none
  report(UpdateDone{.update = update.update + (update.applied ? 0 : 1), .stage = update});
  if (update.applied) return;
  diverged_ = true;
  counts_.updates = update.update;
}

void Worker::log_refusals(Journal& journal) {
  for (const Message& part : rounds_.take_different()) {
    refusals_.add(part, "its model is not that of the others: one that all share is taken anew");
  }
  for (const RefusedMessage& refusal : refusals_.take(id_)) journal.refused(refusal);
}

// A mean leaves out parts with values that are not finite, and the log says whose they were.
Work Worker::without_refused(Work work, const Outcome& outcome) {
  for (const ReplicaId replica : outcome.refused) {
    work.replicas.remove(replica);
    refuse_part(replica);
  }
  return work;
}

// On a GPU that turns out when the answer has been sent.
void Worker::refuse_late(const LateWork& late) {
  const Work& work = late.record.work;
  const std::vector<ReplicaId> replicas = work.replicas.members();
  for (const size_t part : late.norms->refused()) {
    refuse_part(work.parts.empty() ? replicas.at(part) : work.parts.at(part).replica);
  }
}

void Worker::refuse_part(ReplicaId replica) {
  refusals_.add({.kind = MessageKind::kContribution,
                 .from = {.replica = replica, .stage = id_.stage},
                 .to = id_},
                "a part with values that are not finite");
}

void Worker::finish_forward(const Work& work, const Outcome& outcome) {
  LEEWAY_CHECK(work.index == counts_.forwards, "microbatches go forward in order");
  inbox_.activations.drop(work.index);
  versions_.push_back(counts_.updates);
  ++counts_.forwards;
  LEEWAY_CHECK(std::ssize(versions_) == counts_.in_flight(), "a version per microbatch in flight");
  LEEWAY_CHECK(counts_.in_flight() <= schedule_.warmup() + 1, "no more than the schedule allows");
  at_boundary_ = inside_ = false;
  evaluations_.forwarded();
  if (is_last()) return;
  Message activation = activation_message(MessageKind::kActivation, id_.stage.value + 1, work.index,
                                          outcome.payload);
  activation.update = requested_saves_.last_before(work.update);
  outgoing_.push_back(std::move(activation));
}

void Worker::finish_backward(const Work& work, Outcome& outcome) {
  LEEWAY_CHECK(work.index == counts_.backwards, "microbatches go backward in order");
  LEEWAY_CHECK(!versions_.empty(), "a backward follows its forward");
  LEEWAY_CHECK(work.version == versions_.front(), "a backward uses its forward's version");
  inbox_.gradients.drop(work.index);
  versions_.pop_front();
  ++counts_.backwards;
  at_boundary_ = false;
  inside_ = !schedule_.update_due(counts_);
  if (!is_first()) {
    outgoing_.push_back(activation_message(MessageKind::kGradient, id_.stage.value - 1, work.index,
                                           outcome.payload));
  }
  send_norms_if_complete(outcome);
}

// Called after the last backward of an update and, if gradients are averaged, after the last merge.
void Worker::send_norms_if_complete(Outcome& outcome) {
  if (!clip_norms_.shared() || !schedule_.update_due(counts_)) return;
  if (outcome.clip_norms.defined()) clip_norms_.set_own(std::move(outcome.clip_norms));
  if (is_first() || boundary_turn().due) return;
  Message norms = message(MessageKind::kNorms, 0, counts_.updates + 1);
  norms.payload = clip_norms_.own();
  outgoing_.push_back(std::move(norms));
}

void Worker::finish_update(const Work& work, Outcome& outcome) {
  LEEWAY_CHECK(work.update == counts_.updates + 1, "updates go in order");
  LEEWAY_CHECK(schedule_.update_due(counts_), "an update follows its last backward");
  if (clip_norms_.shared() && is_first()) {
    for (int64_t stage = 1; stage < plan_.shape.stages; ++stage) {
      Message total = message(MessageKind::kTotalNorm, stage, work.update);
      total.payload = outcome.total_norm;
      outgoing_.push_back(std::move(total));
    }
  }
  clip_norms_.updated(work.update);
  if (!outcome.update) {
    report(UpdateDone{.update = work.update, .stage = std::nullopt});
  } else if (outcome.update->gate.here()) {
    note_update(outcome.update->read());
    outcome.update.reset();
  }
  if (diverged_) return;
  ++counts_.updates;
  at_boundary_ = true;
  if (plan_.evaluates(counts_.updates)) begin_evaluation();
  if (!is_first()) return;
  if (end_.stop_wanted() && !end_.stop_decided()) stop_at_next_flush();
  name_requested_saves();
}

void Worker::begin_evaluation() {
  const bool takes_part =
      plan_.evaluates_mean(counts_.updates) || rounds_.evaluator() == id_.replica;
  if (takes_part) return evaluations_.want_copy(counts_.updates);
  evaluations_.left_to_another(counts_.updates);
}

void Worker::finish_save(Outcome& outcome) {
  LEEWAY_CHECK(counts_.in_flight() == 0, "a checkpoint is a flush point");
  if (diverged_) return;  // it has just turned out: these are not the weights of this update
  saved_update_ = counts_.updates;
  if (!outcome.state) {  // nothing to keep, but it takes its time like any other
    outcome.state = StageState{.worker = id_, .update = counts_.updates};
    describe_save(*outcome.state);
  }
  rounds_.flush();
  at_boundary_ = false;  // no merge may change the weights after they are saved
  outcome.state->bytes = tally_.tally().bytes;
  last_is_named_ = outcome.state->last;
  unstored_ = to_store_ = std::make_shared<const StageState>(std::move(*outcome.state));
  storing_ = true;
}

void Worker::finish_evaluation(const Work& work, const Outcome& outcome) {
  inbox_.evaluations.drop({work.update, work.index});
  if (!is_last()) {
    Message activation = activation_message(MessageKind::kEvaluation, id_.stage.value + 1,
                                            work.index, outcome.payload);
    activation.update = work.update;
    activation.replicas = evaluations_.replicas();
    outgoing_.push_back(std::move(activation));
  } else if (!is_first()) {
    Message evaluated = message(MessageKind::kEvaluated, 0, work.index);
    evaluated.update = work.update;
    outgoing_.push_back(std::move(evaluated));
  }
  evaluations_.evaluated(/*awaited=*/is_first() && !is_last());
  if (outcome.evaluation) report(*outcome.evaluation);
}

void Worker::finish_round(const Work& work, Outcome& outcome, Outbox& outbox) {
  rounds_.finish(work, outcome, outbox, outgoing_);
  if (work.kind == WorkKind::kMerge) send_norms_if_complete(outcome);
  if (work.lane != Lane::kEvaluation) return;
  if (work.kind == WorkKind::kContribute) {
    evaluations_.copied(/*here=*/rounds_.evaluator() == id_.replica);
    at_boundary_ = false;  // no merge may come between the copy and the next forward
  }
  if (work.kind == WorkKind::kReduce) evaluations_.averaged(work.index, work.replicas);
}

Message Worker::message(MessageKind kind, int64_t to_stage, int64_t index) const {
  return {.kind = kind,
          .from = id_,
          .to = {.replica = id_.replica, .stage = {to_stage}},
          .index = index};
}

// Clipping and stopping do not count as traffic: they send a few numbers per update.
Message Worker::activation_message(MessageKind kind, int64_t to_stage, int64_t index,
                                   const at::Tensor& payload) const {
  Message activation = message(kind, to_stage, index);
  activation.payload = payload;
  const int64_t usual =
      kind == MessageKind::kEvaluation ? plan_.evaluation_bytes : plan_.activation_bytes;
  activation.payload_bytes = payload.defined() ? static_cast<int64_t>(payload.nbytes()) : usual;
  return activation;
}

}  // namespace leeway
