// How a worker carries out what the coordinator and other replicas ask for, and what it tells them:
// stops, saves, tables of members, reports.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "worker/worker.h"

namespace leeway {
namespace {

// What was not heard is said again after this time.
constexpr Nanos kAgain = {1'000'000'000};

// Replicas have the same model if they have applied the same answers, or made the same updates.
uint64_t position_hash(const std::vector<ChunkPosition>& chunks, int64_t updates) {
  ByteWriter writer;
  if (chunks.empty()) writer.put(updates);
  for (const ChunkPosition& chunk : chunks) writer.put(chunk.answer);
  const std::vector<std::byte> bytes = writer.take();
  return hash_bytes(bytes);
}

}  // namespace

// The first update that includes every microbatch in flight. Replicas that wait for each other must
// flush together: the one that is asked names an update that none can have passed, as far ahead as
// rounds let them be apart. Otherwise each replica flushes where it can.
int64_t Worker::next_possible_flush(std::optional<int64_t> named) const {
  const int64_t every = schedule_.update_every();
  int64_t last = (counts_.forwards + every - 1) / every;
  std::optional<int64_t> apart;
  for (const LanePlan& lane : plan_.lanes) {
    if (!lane.lag_backwards) continue;
    apart = std::min(apart.value_or(plan_.run_updates), *lane.lag_updates() + lane.interval);
  }
  if (apart) {
    const int64_t none_passed = counts_.updates + *apart + schedule_.delay_max() + 2;
    last = std::max(last, named.value_or(none_passed));
  }
  return last;
}

void Worker::stop_at_next_flush() {
  const bool for_all = !end_.named();
  end_.stop_at(next_possible_flush(end_.named()));
  if (for_all) end_.name(end_.last_update());
  report(FlushNamed{.ends = true, .update = end_.last_update(), .for_all = for_all});
  for (int64_t stage = 1; stage < plan_.shape.stages; ++stage) {
    outgoing_.push_back(message(MessageKind::kFlushAt, stage, end_.last_update()));
  }
}

// A save that the plan or the end of the session makes anyway needs no flush point of its own.
void Worker::name_requested_saves() {
  for (const RequestedSaves::Request& named : requested_saves_.take_requests()) {
    const int64_t update = std::min(next_possible_flush(named), end_.last_update());
    const int64_t checkpoint = named.value_or(update);
    const bool needless = !plan_.saves || plan_.checkpoints(update);  // of all replicas
    if (!named) {
      report(FlushNamed{.ends = false, .update = needless ? 0 : checkpoint});
      if (!needless) requested_saves_.name(checkpoint);
    }
    if (needless || update >= end_.last_update()) continue;
    requested_saves_.save_at(update, checkpoint);
    for (int64_t stage = 1; stage < plan_.shape.stages; ++stage) {
      Message save = message(MessageKind::kSaveAt, stage, update);
      save.update = checkpoint;
      outgoing_.push_back(std::move(save));
    }
  }
}

// A replay has only what the log says of it.
Membership Worker::table_of(const Work& adoption) const {
  const auto delivered = next_tables_.find(adoption.index);
  return delivered == next_tables_.end() ? Membership(adoption.index, adoption.replicas)
                                         : delivered->second;
}

// A table may still have the worker that was in this place before.
bool Worker::restarts_by(const Membership& table) const {
  return table.has(id_.replica) && table.epoch(id_.replica) > table_.epoch(id_.replica) &&
         table.incarnation(id_) == incarnation_;
}

void Worker::run_adoption(const Work& work, Outcome& outcome) {
  const Membership table = table_of(work);
  if (restarts_by(table)) return compute_->restart(table.restart(id_.replica).update);
  rounds_.run_adoption(table);
  // Gradients that will not be averaged any more count as they are.
  if (clip_norms_.shared() && schedule_.update_due(counts_)) {
    outcome.clip_norms = compute_->gradient_norms();
  }
}

void Worker::finish_adoption(const Work& work, Outcome& outcome) {
  LEEWAY_CHECK(work.index > table_.number(), "tables ascend");
  const ReplicaId evaluator = rounds_.evaluator();
  const bool averages_gradients = schedule_.update_due(counts_) && boundary_turn().due;
  const Membership table = table_of(work);
  const bool restarts = restarts_by(table);
  table_ = table;
  next_tables_.erase(next_tables_.begin(), next_tables_.upper_bound(table_.number()));
  if (receiver_) receiver_->adopt(table_, newest_update_);
  if (!takes_part() || table_.members().size() == plan_.replicas) donor_.forget();
  if (restarts) return restart(table_.restart(id_.replica));
  const std::optional<int64_t> elsewhere = evaluations_.newest_elsewhere();
  rounds_.finish_adoption(table_, work.have, elsewhere, outgoing_);
  const bool takes_over = evaluator != id_.replica && rounds_.evaluator() == id_.replica;
  if (is_first() && takes_over && elsewhere) want_give_up(*elsewhere);
  if (takes_part() && averages_gradients) send_norms_if_complete(outcome);
  report(presence());
}

// Everything goes on as after a flush point. What was in flight is dropped: nobody has made that
// update, and nobody will.
void Worker::restart(const Membership::Restart& restart) {
  LEEWAY_CHECK(!receiver_ || receiver_->loaded(), "one that joins has a state before it goes on");
  const int64_t updates = restart.update;
  counts_ = {.forwards = updates * plan_.shape.update_every,
             .backwards = updates * plan_.shape.update_every,
             .updates = updates};
  versions_.clear();
  inbox_ = {};
  clip_norms_ = ClipNorms(plan_.shape, id_.stage);
  evaluations_ = Evaluations(plan_.evaluation_batches);
  evaluations_.give_up(updates);
  give_up_wanted_.reset();
  requested_saves_.restart(updates);
  tally_.restart();
  const std::optional<int64_t> ends = end_.named();
  end_ = SessionEnd(std::max(plan_.last_update_of(id_.replica), updates));
  if (ends) end_.hear_of_stop(*ends);
  // One that was there all the time has the common model as it is.
  const std::vector<ChunkPosition> chunks = receiver_ ? state_chunks_ : rounds_.positions();
  rounds_.restart(table_, updates, state_rounds_, chunks, outgoing_);
  donor_.forget();
  receiver_.reset();
  announce_due_ = diverged_ = has_said_done_ = told_done_ = false;
  at_boundary_ = trained();
  inside_ = false;
  saved_update_ = -1;
  for (Message& message : std::exchange(early_, {})) deliver(std::move(message));
  report(presence());
}

// What a worker sends that joins, or one that is asked to help it.
void Worker::run_transfer(Outcome& outcome) {
  if (receiver_ && receiver_->can_load()) {
    Result<StageState> state = receiver_->take_state();
    if (state.ok() && compute_->take_over(*state).ok()) outcome.state = std::move(*state);
    return;
  }
  if (receiver_ || !donor_.wants_snapshot(counts_.updates)) return;
  outcome.payload = pack_state(compute_->state());
}

void Worker::finish_transfer(const Work& work, const Outcome& outcome, Outbox& outbox) {
  if (!receiver_) return send_state(outcome);
  if (work.index != receiver_->part()) return;  // the part has come meanwhile
  if (!receiver_->can_load()) return ask_for_state(outbox);
  const bool well = compute_ == nullptr || outcome.state.has_value();
  state_rounds_ = receiver_->rounds();
  state_chunks_ = receiver_->chunks();
  receiver_->set_loaded(well);
  announce_due_ = announce_due_ || well;
}

void Worker::ask_for_state(Outbox& outbox) {
  Message ask = {.kind = MessageKind::kAskState,
                 .from = id_,
                 .to = {.replica = receiver_->donor(), .stage = id_.stage}};
  ask.update = receiver_->update();
  ask.chunk = receiver_->part();
  outgoing_.push_back(std::move(ask));
  const int64_t index = receiver_->asked();
  const Nanos pace = plan_.join_pace(kStatePartBytes);
  Message reminder = {.kind = MessageKind::kRemind, .from = id_, .to = id_, .index = index};
  outbox.remind(reminder, pace);
  ++reminder.index;
  outbox.remind(reminder, pace + kAgain);
}

void Worker::send_state(const Outcome& outcome) {
  // One that asked meanwhile may want a newer one: that is made with the next part.
  const bool made = compute_ == nullptr || outcome.payload.defined();
  if (donor_.wants_snapshot(counts_.updates) && made) {
    const int64_t size = outcome.payload.defined() ? outcome.payload.numel() : plan_.state_bytes;
    donor_.take_snapshot({.worker = id_,
                          .update = counts_.updates,
                          .rounds = rounds_.rounds_begun(),
                          .chunks = rounds_.positions()},
                         outcome.payload, size);
  }
  if (!donor_.has_snapshot()) return;
  StateDonor::Answer answer = donor_.take_answer();
  Message part = {.kind = MessageKind::kState,
                  .from = id_,
                  .to = {.replica = answer.to, .stage = id_.stage},
                  .index = answer.parts,
                  .update = answer.update};
  part.chunk = answer.part;
  part.payload_bytes =
      answer.bytes.defined() ? answer.bytes.numel() : std::max<int64_t>(0, answer.size);
  part.payload = std::move(answer.bytes);
  part.report = std::move(answer.what);
  outgoing_.push_back(std::move(part));
}

Present Worker::presence() const {
  const int64_t every = schedule_.update_every();
  return {.updates = counts_.updates,
          .begun = (counts_.forwards + every - 1) / every,
          .joins = receiver_.has_value(),
          .loaded = receiver_ && receiver_->loaded(),
          .done = has_said_done_,
          .table = table_,
          .ends = end_.stop_decided() ? end_.last_update() : 0};
}

// Only what is unsaid: everything else is told by the piece of work that it belongs to.
void Worker::finish_report(const Work& work, const Outcome& outcome, Outbox& outbox) {
  if (names_end_now()) stop_at_next_flush();
  if (std::exchange(announce_due_, false)) {
    report(presence());
    outbox.remind({.kind = MessageKind::kRemind, .from = id_, .to = id_}, kAgain);
  }
  if (work.index >= 0) give_up_evaluations(work.index);
  for (ShardSaved& saved : std::exchange(stored_, {})) report(std::move(saved));
  if (names_last_state_now()) name_last_state();
  const bool done_now = !told_done_ && done();
  if (std::exchange(tell_again_, false) || (done_now && has_said_done_)) {
    for (size_t at = 0; at < reports_.kept().size(); ++at) send_kept(at);
    if (std::exchange(tell_all_, false)) tell_what_lasts();
    report(presence());
  }
  if (!done_now) return;
  if (!std::exchange(has_said_done_, true)) {
    finished_ = {
        .epoch = table_.epoch(id_.replica), .updates = counts_.updates, .rounds = rounds_.counts()};
    if (compute_ != nullptr) {
      finished_.parameters = compute_->stage().weights().numel();
      finished_.versions_peak = compute_->stage().versions_peak();
      finished_.version_bytes = compute_->stage().version_bytes();
      finished_.model_hash = outcome.hash;
      finished_.model_at = position_hash(rounds_.positions(), counts_.updates);
    }
    report(finished_);
  }
  told_done_ = true;
  outbox.remind({.kind = MessageKind::kRemind, .from = id_, .to = id_}, kAgain);
}

// Reports that were recorded are not kept. Of these, a coordinator whose recorder is new as well
// hears again; to one that knows them they change nothing.
void Worker::tell_what_lasts() {
  Present first = presence();
  first.done = false;  // who hears that all are done listens no longer
  report(first);
  if (newest_stored_) report(*newest_stored_);
  if (has_said_done_) report(finished_);
}

// Such a state is the last one all the same, and is not given up as one on the way would be.
void Worker::name_last_state() {
  last_is_named_ = true;
  if (unstored_) {
    StageState last = *unstored_;
    last.last = true;
    unstored_ = to_store_ = std::make_shared<const StageState>(std::move(last));
    storing_ = true;
  } else if (newest_stored_ && newest_stored_->update == counts_.updates) {
    newest_stored_->last = true;
    report(*newest_stored_);
  }
}

// More may have become impossible since this began: that is given up next.
void Worker::give_up_evaluations(int64_t update) {
  const auto impossible = impossible_evaluation();
  if (impossible && *impossible <= update) {
    outgoing_.push_back(message(MessageKind::kGaveUp, 0, *impossible));
    report(StageEvaluation{.worker = id_, .update = *impossible, .given_up = true});
  }
  if (give_up_wanted_ && *give_up_wanted_ <= update) give_up_wanted_.reset();
  evaluations_.give_up(update);
  rounds_.give_up_evaluations(update);
  inbox_.evaluations.drop_before({update + 1, 0});
  if (is_last()) return;
  Message given_up =
      message(MessageKind::kEvaluation, id_.stage.value + 1, plan_.evaluation_batches);
  given_up.update = update;
  outgoing_.push_back(std::move(given_up));
}

// What is reported goes out with the numbers of the work that it belongs to, that work included.
void Worker::send_reports() {
  for (Report& report : std::exchange(to_report_, {})) {
    std::visit(
        [this](auto& news) {
          if constexpr (requires { news.tally; }) news.tally = tally_.tally();
        },
        report);
    reports_.add(std::move(report));
    send_kept(reports_.kept().size() - 1);
  }
}

void Worker::send_kept(size_t at) {
  Message message = {.kind = MessageKind::kReport, .from = id_, .to = kCoordinator};
  message.index = reports_.kept()[at].number;
  message.update = reports_.before(at);
  message.report = reports_.kept()[at].report;
  outgoing_reports_.push_back(std::move(message));
}

Envelope Worker::envelope() const {
  return {.run = plan_.run,
          .recipe = plan_.recipe,
          .table = table_.number(),
          .incarnation = incarnation_,
          .epoch = table_.epoch(id_.replica),
          .ends = end_.named().value_or(0),
          .saves = requested_saves_.newest_named()};
}

}  // namespace leeway
