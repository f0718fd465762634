#include "worker/worker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {

Worker::Worker(WorkerId id, const RunPlan& plan, std::unique_ptr<StageCompute> numbers)
    : id_(id),
      plan_(plan),
      schedule_(plan.shape, id.stage),
      compute_(std::move(numbers)),
      last_update_(plan.last_update),
      evaluations_(plan.evaluation_batches) {
  counts_.updates = plan.first_update_of(id.replica);
  counts_.forwards = counts_.backwards = counts_.updates * plan.shape.update_every;
  last_update_ = std::max(last_update_, counts_.updates);
  saved_update_ = counts_.updates;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const LanePlan& options = plan.lanes[lane];
    int64_t next_round = 0;
    if (!plan.starts.empty()) {
      const auto& rounds = plan.starts[static_cast<size_t>(id.replica.value)].rounds;
      next_round = rounds[static_cast<size_t>(id.stage.value)][lane];
    }
    lanes_.push_back(
        {options, RoundOwner(options), RoundMember(options, counts_.updates, next_round)});
  }
}

void Worker::evaluate_first() {
  LEEWAY_CHECK(counts_.forwards == counts_.updates * schedule_.update_every(),
               "before the first piece of work");
  if (plan_.replicas > 1) {
    at_boundary_ = true;
    copy_due_ = counts_.updates;
    return;
  }
  if (compute_ != nullptr) compute_->hold_for_evaluation(counts_.updates);
  evaluations_.hold(counts_.updates);
}

void Worker::deliver(Message message) {
  switch (message.kind) {
    case MessageKind::kActivation:
      activations_.emplace(message.index, std::move(message.payload));
      return;
    case MessageKind::kGradient:
      gradients_.emplace(message.index, std::move(message.payload));
      return;
    case MessageKind::kNorms:
      norms_.emplace(message.from.stage.value, std::move(message.payload));
      return;
    case MessageKind::kTotalNorm:
      total_norms_.emplace(message.index, std::move(message.payload));
      return;
    case MessageKind::kEvaluation:
      evaluation_inputs_.emplace(std::pair(message.update, message.index),
                                 std::move(message.payload));
      return;
    case MessageKind::kEvaluated:
      evaluations_.acknowledged();
      return;
    case MessageKind::kStop:
      return hear_of_stop(message);
    case MessageKind::kFlushAt:
      last_update_ = message.index;
      stopping_ = true;
      return;
    case MessageKind::kContribution:
    case MessageKind::kAnswer:
    case MessageKind::kDeadline:
    case MessageKind::kAskAgain:
      return deliver_round(std::move(message));
  }
  LEEWAY_UNREACHABLE("all kinds of messages are above");
}

// The whole algorithm: first what others wait for, then what belongs to the boundary of an update,
// then the pipeline.
std::optional<Work> Worker::next() const {
  if (diverged_) return std::nullopt;
  if (const auto work = owed()) return work;
  if (const Turn turn = averaging_turn(); turn.due) return turn.work;
  return pipeline_turn();
}

// Forward or backward is decided by counters alone; what has not arrived is waited for, never
// overtaken: so the arithmetic does not depend on timing.
std::optional<Work> Worker::pipeline_turn() const {
  constexpr auto kIdle = std::nullopt;
  if (done()) return kIdle;

  if (schedule_.update_due(counts_)) {
    // Copies of replicas that have stopped earlier never come.
    const bool gives_up = (stopping_ || stop_wanted_) && plan_.replicas > 1;
    const bool crowded = plan_.evaluates(counts_.updates + 1) && evaluations_.full() && !gives_up;
    if (crowded && evaluation_arrived()) return evaluation();
    if (crowded || !norms_arrived()) return kIdle;
    return boundary(WorkKind::kUpdate, counts_.updates + 1);
  }
  if (save_due()) return boundary(WorkKind::kSave, counts_.updates);

  const bool trained = counts_.updates == last_update_;
  if ((evaluations_.has_turn() || trained) && evaluation_arrived()) return evaluation();

  if (schedule_.wants_forward(counts_, flush())) {
    const bool arrived = is_first() || activations_.contains(counts_.forwards);
    if (!arrived) return kIdle;
    return training(WorkKind::kForward, counts_.forwards);
  }
  if (schedule_.wants_backward(counts_, flush())) {
    const bool arrived = is_last() || gradients_.contains(counts_.backwards);
    if (!arrived) return kIdle;
    return training(WorkKind::kBackward, counts_.backwards);
  }
  return kIdle;
}

bool Worker::done() const {
  const bool trained = counts_.updates == last_update_ && !averaging_turn().due;
  // Where others have stopped, copies that an evaluation waits for may never come.
  const bool stops = stopping_ || (stop_wanted_ && plan_.replicas > 1);
  return trained && !save_due() && (stops || evaluations_.empty());
}

bool Worker::save_due() const {
  const bool wanted = counts_.updates == last_update_ || plan_.checkpoints(counts_.updates);
  return plan_.saves && wanted && saved_update_ != counts_.updates;
}

// Synchronous schedules clip by the norm of the whole model, which stage 0 adds up.
bool Worker::norms_arrived() const {
  if (!sums_norms()) return true;
  if (!is_first()) return total_norms_.contains(counts_.updates + 1);
  return static_cast<int64_t>(norms_.size()) == plan_.shape.stages - 1;
}

bool Worker::evaluation_arrived() const {
  if (evaluations_.empty()) return false;
  if (plan_.replicas > 1 && !copies_averaged_.contains(evaluations_.update())) return false;
  if (is_first()) return evaluations_.in_flight() <= plan_.shape.stages;
  return evaluation_inputs_.contains({evaluations_.update(), evaluations_.batch()});
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

void Worker::run(const Work& work) {
  if (compute_ == nullptr) {
    if (work.kind == WorkKind::kSave) drop_rounds();
    return;
  }
  const auto input = [&](const auto& inbox, const auto& key) {
    const auto found = inbox.find(key);
    return found == inbox.end() ? at::Tensor() : found->second;
  };
  switch (work.kind) {
    case WorkKind::kForward:
      result_ = compute_->forward({work.index}, work.delay, input(activations_, work.index));
      return;
    case WorkKind::kBackward:
      result_ = compute_->backward({work.index}, input(gradients_, work.index));
      if (sums_norms() && counts_.backwards + 1 == work.update * schedule_.update_every()) {
        own_norms_ = compute_->gradient_norms();
      }
      return;
    case WorkKind::kUpdate:
      total_norm_ = total_norm();
      updated_ = compute_->update(total_norm_);
      if (updated_->applied && plan_.replicas == 1 && plan_.evaluates(work.update)) {
        compute_->hold_for_evaluation(work.update);
      }
      return;
    case WorkKind::kSave:
      drop_rounds();
      state_ = compute_->state();
      for (const LaneSeat& lane : lanes_) state_->rounds.push_back(lane.member.rounds_begun());
      return;
    case WorkKind::kEvaluate:
      result_ = compute_->evaluate(work.update, work.index,
                                   input(evaluation_inputs_, std::pair(work.update, work.index)));
      return;
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
      return run_round(work);
  }
  LEEWAY_UNREACHABLE("all kinds of work are above");
}

// Added parameter by parameter in the order of the model: the same bits however it is cut.
std::optional<double> Worker::total_norm() const {
  if (!sums_norms()) return std::nullopt;
  if (!is_first()) return total_norms_.at(counts_.updates + 1).item<double>();
  std::vector<at::Tensor> parts = {own_norms_};
  for (const auto& [stage, norms] : norms_) parts.push_back(norms);
  double sum = 0;
  for (const at::Tensor& part : parts) {
    const double* const squares = part.const_data_ptr<double>();
    for (int64_t i = 0; i < part.numel(); ++i) sum += squares[i];
  }
  return sum;
}

void Worker::finish(const Work& work, const WorkTimes& times, Outbox& outbox, Recorder& recorder) {
  switch (work.kind) {
    case WorkKind::kForward:
      finish_forward(work);
      break;
    case WorkKind::kBackward:
      finish_backward(work);
      break;
    case WorkKind::kUpdate:
      finish_update(work, recorder);
      break;
    case WorkKind::kSave:
      saved_update_ = counts_.updates;
      if (state_) recorder.saved(std::move(*std::exchange(state_, std::nullopt)));
      break;
    case WorkKind::kEvaluate:
      finish_evaluation(work, recorder);
      break;
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
      finish_round(work, outbox);
      break;
  }
  result_.reset();
  // Written down before anybody can act on it: the log's order is one that the run can have had.
  WorkRecord record = {.worker = id_, .work = work, .times = times};
  for (const Message& message : outgoing_) record.bytes_sent += message.payload_bytes;
  record.norms = std::exchange(sizes_, std::nullopt);
  if (work.kind != WorkKind::kAwait) recorder.worked(record);
  for (Message& message : outgoing_) outbox.send(std::move(message));
  outgoing_.clear();
}

void Worker::finish_forward(const Work& work) {
  activations_.erase(work.index);
  versions_.push_back(counts_.updates);
  ++counts_.forwards;
  at_boundary_ = false;
  evaluations_.forwarded();
  if (!is_last()) post(message(MessageKind::kActivation, id_.stage.value + 1, work.index));
}

void Worker::finish_backward(const Work& work) {
  gradients_.erase(work.index);
  versions_.pop_front();
  ++counts_.backwards;
  at_boundary_ = false;
  if (!is_first()) post(message(MessageKind::kGradient, id_.stage.value - 1, work.index));
  if (schedule_.update_due(counts_) && !averaging_turn().due) post_norms();
}

void Worker::post_norms() {
  if (is_first() || !sums_norms()) return;
  Message norms = message(MessageKind::kNorms, 0, counts_.updates + 1);
  norms.payload = own_norms_;
  post(std::move(norms));
}

void Worker::finish_update(const Work& work, Recorder& recorder) {
  if (sums_norms() && is_first()) {
    for (int64_t stage = 1; stage < plan_.shape.stages; ++stage) {
      Message total = message(MessageKind::kTotalNorm, stage, work.update);
      if (total_norm_) total.payload = at::scalar_tensor(*total_norm_, at::kDouble);
      post(std::move(total));
    }
  }
  norms_.clear();
  total_norms_.erase(work.update);
  if (updated_) {
    diverged_ = !updated_->applied;
    recorder.updated(*updated_);
    if (const auto prediction = compute_->take_prediction()) recorder.predicted(*prediction);
    updated_.reset();
    if (diverged_) return;
  }
  ++counts_.updates;
  at_boundary_ = true;
  if (plan_.evaluates(counts_.updates)) {
    if (plan_.replicas > 1) {
      copy_due_ = counts_.updates;
    } else {
      evaluations_.hold(counts_.updates);
    }
  }
  if (is_first() && stop_wanted_ && !stopping_) stop_at_next_flush();
}

// From the driver, or from the replica that heard of it first and has named an update.
void Worker::hear_of_stop(const Message& message) {
  stop_wanted_ = true;
  if (message.from != id_) stop_named_ = message.index;
}

// Everything that is on its way becomes part of an update; nothing new begins after it. Replicas
// that wait for each other must end together: whoever hears of it first names an update that nobody
// can have passed, as far ahead as rounds let them be apart. Others end each where it can.
void Worker::stop_at_next_flush() {
  const int64_t every = schedule_.update_every();
  stopping_ = true;
  int64_t last = (counts_.forwards + every - 1) / every;
  std::optional<int64_t> apart;
  for (const LanePlan& lane : plan_.lanes) {
    if (!lane.lag) continue;
    apart = std::min(apart.value_or(plan_.run_updates), *lane.lag + lane.interval);
  }
  if (apart) {
    const int64_t nobody_passed = counts_.updates + *apart + schedule_.delay_max() + 2;
    last = std::max(last, stop_named_.value_or(nobody_passed));
  }
  if (plan_.replicas > 1 && !stop_named_) {
    // To all stages: those that are trained and wait for others' copies hear of it no other way.
    for (int64_t i = 0; i < plan_.replicas * plan_.shape.stages; ++i) {
      const int64_t replica = i / plan_.shape.stages;
      if (replica == id_.replica.value) continue;
      Message stop =
          message(MessageKind::kStop, i % plan_.shape.stages, std::min(last, last_update_));
      stop.to.replica = {replica};
      post(std::move(stop));
    }
  }
  last_update_ = std::min(last, last_update_);
  for (int64_t stage = 1; stage < plan_.shape.stages; ++stage) {
    post(message(MessageKind::kFlushAt, stage, last_update_));
  }
}

void Worker::finish_evaluation(const Work& work, Recorder& recorder) {
  evaluation_inputs_.erase({work.update, work.index});
  if (!is_last()) {
    Message activation = message(MessageKind::kEvaluation, id_.stage.value + 1, work.index);
    activation.update = work.update;
    post(std::move(activation));
  } else if (!is_first()) {
    post(message(MessageKind::kEvaluated, 0, work.index));
  }
  const bool through = evaluations_.evaluated();
  if (through) copies_averaged_.erase(work.update);
  if (is_first() && is_last()) evaluations_.acknowledged();
  const bool trained = counts_.updates == last_update_;
  if (is_first() && stop_wanted_ && !stopping_ && trained) stop_at_next_flush();
  if (!through || compute_ == nullptr) return;
  const StageEvaluation evaluation = compute_->end_evaluation(work.update);
  if (is_last()) recorder.evaluated(evaluation);
}

// From this worker, with what run() made as its payload where it is a payload's kind.
Message Worker::message(MessageKind kind, int64_t to_stage, int64_t index) const {
  const bool carries = kind == MessageKind::kActivation || kind == MessageKind::kGradient ||
                       kind == MessageKind::kEvaluation;
  return {.kind = kind,
          .from = id_,
          .to = {.replica = id_.replica, .stage = {to_stage}},
          .index = index,
          .payload = carries ? result_ : at::Tensor(),
          .payload_bytes = carries ? plan_.activation_bytes : 0};
}

// What clipping and stopping say is a few numbers an update: payloads are what is counted.
void Worker::post(Message message) {
  if (message.payload.defined() && message.payload_bytes > 0) {
    message.payload_bytes = static_cast<int64_t>(message.payload.nbytes());
  }
  outgoing_.push_back(std::move(message));
}

}  // namespace leeway
