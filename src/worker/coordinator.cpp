#include "worker/coordinator.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "worker/check_envelope.h"

namespace leeway {
namespace {

constexpr int64_t kHeardEvery = 16;  // updates; everything else is confirmed at once
constexpr Nanos kAgainAfter = {1'000'000'000};
constexpr int kTellOverMax = 10;

// A report speaks for its sender alone.
bool speaks_for(const Report& report, WorkerId from) {
  if (const auto* done = std::get_if<UpdateDone>(&report)) {
    return !done->stage || done->stage->worker == from;
  }
  if (const auto* evaluation = std::get_if<StageEvaluation>(&report)) {
    return evaluation->worker == from;
  }
  const auto* const saved = std::get_if<ShardSaved>(&report);
  return saved == nullptr || saved->worker == from;
}

bool has_diverged(const Report& report) {
  const auto* const done = std::get_if<UpdateDone>(&report);
  return done != nullptr && done->stage && !done->stage->applied;
}

}  // namespace

Coordinator::Coordinator(const RunPlan& plan, Recorder& recorder, Start start)
    : plan_(plan),
      recorder_(recorder),
      seats_(plan.mesh().count()),
      table_(plan.replicas),
      learns_(start == Start::kAgain),
      orders_due_(learns_) {
  for (Seat& seat : seats_) seat.known = !learns_;
}

void Coordinator::deliver(const Message& message) {
  if (const std::string_view reason = check(message); !reason.empty()) {
    return refusals_.add(message, reason);
  }
  switch (message.kind) {
    case MessageKind::kReport:
      if (message.envelope.incarnation < seat(message.from).incarnation) return;
      hear(message);
      return file(message);
    case MessageKind::kAsk: {
      const auto ask = static_cast<Ask>(message.index);
      if (ask == Ask::kStop) end_.wanted = stop_asked_ = true;
      if (ask == Ask::kSave) save_.wanted = true;
      if (ask == Ask::kAbandon) abandoned_ = true;
      orders_due_ = true;
      return;
    }
    case MessageKind::kLost:
      if (message.envelope.incarnation < seat(message.from).incarnation) return;
      fill(seat(message.from), message.envelope.incarnation);
      seat(message.from).lost = roll_due_ = true;
      orders_due_ = true;
      return;
    default:  // kTick: what is not confirmed is said again
      ticking_ = false;
      orders_due_ = true;
      end_.asked.reset();
      save_.asked.reset();
      for (Seat& seat : seats_) {
        seat.told_table = seat.table;
        seat.told_end = seat.told_over = seat.asked_again = false;
      }
      return;
  }
}

std::string_view Coordinator::check(const Message& message) const {
  if (message.to != kCoordinator) return "for another worker";
  switch (message.kind) {
    case MessageKind::kLost:  // of the worker, not from it
      return plan_.mesh().contains(message.from) ? "" : "a worker that there is not";
    case MessageKind::kAsk:
      if (message.index > static_cast<int64_t>(Ask::kAbandon)) return "not a wish that it knows";
      return check_envelope(message, plan_);
    case MessageKind::kTick:
      return "";
    case MessageKind::kReport:
      break;
    default:
      return "a kind that a coordinator does not take";
  }
  if (message.from == kCoordinator) return "from a worker that there is not";
  if (const std::string_view reason = check_envelope(message, plan_); !reason.empty()) {
    return reason;
  }
  if (!message.report || !speaks_for(*message.report, message.from)) return "another's report";
  const auto* present = std::get_if<Present>(message.report.get());
  return present == nullptr || fits(present->table, plan_) ? "" : "a table that cannot be";
}

// Another worker may be in this place now.
void Coordinator::fill(Seat& seat, int64_t incarnation) {
  if (incarnation <= seat.incarnation) return;
  seat = {.known = seat.known, .incarnation = incarnation, .updates = seat.updates};
  orders_due_ = roll_due_ = true;
}

// What every message tells, whether its report is new or not.
void Coordinator::hear(const Message& message) {
  Seat& seat = this->seat(message.from);
  fill(seat, message.envelope.incarnation);
  seat.table = std::max(seat.table, message.envelope.table);
  seat.ends = std::max(seat.ends, message.envelope.ends);
  if (end_.named == 0 && message.envelope.ends > 0) {
    end_.named = message.envelope.ends;  // as another coordinator was told
    orders_due_ = true;
  }
  if (!over_) return;
  seat.told_over = false;
  orders_due_ = true;
}

// Reports of a worker are taken in order, each once.
void Coordinator::file(const Message& message) {
  Seat& seat = this->seat(message.from);
  if (message.index < seat.next_report) return;
  if (message.update >= seat.next_report) {
    seat.gap = orders_due_ = true;
    return;
  }
  seat.next_report = message.index + 1;  // what is in between was recorded, or is not needed
  seat.gap = seat.asked_again = false;
  filed_.push_back({message.from, message.envelope.incarnation, message.index, message.report});
}

std::optional<Coordinator::Errand> Coordinator::next() const {
  if (!filed_.empty()) return Errand::kRecord;
  if (orders_due_ || (roll_due_ && !still_learns())) return Errand::kOrders;
  return std::nullopt;
}

void Coordinator::run(Errand errand) {
  for (const RefusedMessage& refusal : refusals_.take(kCoordinator)) recorder_.refused(refusal);
  if (errand == Errand::kRecord) record(filed_.front());
  if (unrecorded_ && knows_members()) {
    unrecorded_ = false;
    recorder_.members(table_);
  }
  if (!still_learns()) {
    for (const ReplicaId replica : std::exchange(leaving_, {})) leave(replica);
    if (std::exchange(roll_due_, false)) {
      leave_where_workers_are_missing();
      take_back();
    }
  }
  const bool regroups = regroup_ && !stop_asked_;
  const bool stops = stop_asked_ && !std::exchange(told_stop_, stop_asked_);
  if (std::exchange(told_regroup_, regroups) != regroups || stops) recorder_.regroups(regroups);
}

// With a fixed lag replicas wait for each other, so all must end together. If the one that named
// the end was lost while only some had heard of it, another one names a later end: who has ended
// by then is waited for no longer.
std::vector<ReplicaId> Coordinator::ended_before_others() const {
  if (end_.named == 0 || !plan_.together()) return {};
  int64_t latest = 0;
  std::vector<ReplicaId> before;
  for (const ReplicaId replica : table_.members())
    latest = std::max(latest, first_of(replica).decided_end);
  for (const ReplicaId replica : table_.members()) {
    const Seat& first = first_of(replica);
    if (first.finished && first.updates < latest) before.push_back(replica);
  }
  return before;
}

// Until every worker that is left has said which table it goes by, no other one is made.
bool Coordinator::still_learns() const {
  return std::ranges::any_of(seats_,
                             [this](const Seat& seat) { return !seat.lost && has_to_tell(seat); });
}

// Whether it has yet to speak, or to say what is in its table.
bool Coordinator::has_to_tell(const Seat& seat) const {
  return learns_ && (!seat.known || seat.table > table_.number());
}

// Whether all of the table that it has learned so far have spoken.
bool Coordinator::knows_members() const {
  for (size_t at = 0; at < seats_.size(); ++at) {
    const bool counts = table_.has(plan_.mesh().id(at).replica);
    if (counts && !seats_[at].known && !seats_[at].lost) return false;
  }
  return true;
}

void Coordinator::record(const Filed& filed) {
  const Report& report = *filed.report;
  if (has_diverged(report)) leave(filed.from.replica);
  if (const WorkTally* tally = tally_in(report)) recorder_.tallied(filed.from, *tally);
  if (const auto* done = std::get_if<UpdateDone>(&report); done != nullptr && done->stage) {
    recorder_.updated(*done->stage);
  } else if (const auto* evaluation = std::get_if<StageEvaluation>(&report)) {
    recorder_.evaluated(*evaluation);
  } else if (const auto* saved = std::get_if<ShardSaved>(&report)) {
    recorder_.saved(*saved);
  } else if (const auto* finished = std::get_if<Finished>(&report)) {
    const bool of_now = finished->epoch == table_.epoch(filed.from.replica);
    if (of_now) recorder_.finished(filed.from, *finished);
  } else if (const auto* present = std::get_if<Present>(&report)) {
    seat(filed.from).known = true;
    // One that was there from the start has made all tables itself.
    if (learns_ && present->table.number() > table_.number()) learn(present->table);
  }
}

void Coordinator::finish(Errand errand, Outbox& outbox) {
  if (errand == Errand::kRecord) {
    count(filed_.front(), outbox);
    filed_.pop_front();
    const std::vector<ReplicaId> ended = ended_before_others();
    leaving_.insert(leaving_.end(), ended.begin(), ended.end());
    orders_due_ = orders_due_ || !ended.empty();
  }
  const bool records_first = !leaving_.empty() && !still_learns();
  if (orders_due_ && !records_first) send_orders(outbox);
}

void Coordinator::count(const Filed& filed, Outbox& outbox) {
  Seat& seat = this->seat(filed.from);
  if (filed.incarnation != seat.incarnation) return;  // another one is in its place
  const Report& report = *filed.report;
  if (const auto* done = std::get_if<UpdateDone>(&report)) {
    seat.updates = std::max(seat.updates, done->update);
  } else if (const auto* named = std::get_if<FlushNamed>(&report)) {
    if (named->ends) {
      seat.decided_end = named->update;
      if (named->for_all) end_.named = named->update;
    } else {
      save_ = {};
      save_to_tell_ = named->update;
      newest_save_ = std::max(newest_save_, named->update);
    }
    orders_due_ = true;
  } else if (const auto* present = std::get_if<Present>(&report)) {
    const ReplicaId replica = filed.from.replica;
    seat.updates = std::max(seat.updates, present->updates);
    seat.decided_end = std::max(seat.decided_end, present->ends);
    const bool of_now = present->table.epoch(replica) == table_.epoch(replica);
    if (!table_.has(replica) && (of_now || present->joins)) {
      seat.joins = present->joins;
      seat.loaded = present->loaded;
      // It has heard that its replica is out, so this does not change any more.
      if (!present->joins && !present->table.has(replica)) seat.idle_after = present->begun;
      orders_due_ = roll_due_ = true;
    }
    if (of_now) seat.finished = false;
    if (of_now && present->done) finish_seat(seat);
  } else if (const auto* finished = std::get_if<Finished>(&report)) {
    seat.updates = std::max(seat.updates, finished->updates);
    if (finished->epoch == table_.epoch(filed.from.replica)) finish_seat(seat);
  }
  const bool often = std::holds_alternative<UpdateDone>(report);
  if (!often || filed.number % kHeardEvery == 0) {
    send(filed.from, MessageKind::kHeard, filed.number, outbox);
  }
}

// Nobody is told unless it changes something: of ten thousand workers each one finishes.
void Coordinator::finish_seat(Seat& seat) {
  seat.finished = true;
  orders_due_ = orders_due_ || end_.wanted || end_.named > 0 || save_.wanted || all_finished();
}

// A replica that can still name an update.
std::optional<ReplicaId> Coordinator::namer() const {
  for (const ReplicaId replica : table_.members()) {
    if (!first_of(replica).finished && !first_of(replica).lost) return replica;
  }
  return std::nullopt;
}

// If no replica is left, what they have saved is still on its way to disk.
bool Coordinator::all_finished() const {
  const bool nobody = table_.members().empty();
  // Somebody may come; nobody comes back by itself from a divergence.
  const bool may_come =
      std::ranges::any_of(seats_, [](const Seat& seat) { return seat.lost || seat.joins; });
  if (nobody && plan_.refills && may_come && !regroup_ && !stop_asked_) return false;
  for (size_t at = 0; at < seats_.size(); ++at) {
    const Seat& seat = seats_[at];
    const bool awaited =
        nobody ? !seat.lost && !seat.joins : table_.has(plan_.mesh().id(at).replica);
    if (awaited && !seat.finished) return false;
  }
  return true;
}

// Whether nothing has to be said again.
bool Coordinator::all_confirmed() const {
  // Who is done and has not heard of it says so again. The others, of replicas that have left, do
  // not: they are told several times.
  if (over_) {
    const bool all_done =
        std::ranges::all_of(seats_, [](const Seat& seat) { return seat.finished || seat.lost; });
    return all_done || times_told_over_ >= kTellOverMax;
  }
  if (end_.wanted && end_.named == 0 && namer()) return false;
  if (save_.wanted && namer()) return false;
  return std::ranges::all_of(seats_, [this](const Seat& seat) {
    if (seat.lost) return true;
    const bool heard = end_.named == 0 || seat.ends > 0 || seat.finished;
    return seat.known && !seat.gap && seat.table == table_.number() && heard;
  });
}

void Coordinator::send_orders(Outbox& outbox) {
  orders_due_ = false;
  over_ = over_ || abandoned_ || all_finished();
  if (over_) {
    ++times_told_over_;
  } else {
    order_end(outbox);
    order_save(outbox);
  }
  for (size_t at = 0; at < seats_.size(); ++at) {
    if (!seats_[at].lost) tell(at, outbox);
  }
  if (all_confirmed() || std::exchange(ticking_, true)) return;
  outbox.remind({.kind = MessageKind::kTick, .from = kCoordinator, .to = kCoordinator},
                kAgainAfter);
}

// One replica names the update, so that there is one number.
void Coordinator::order_end(Outbox& outbox) {
  if (!end_.wanted || end_.named > 0) return;
  const std::optional<ReplicaId> who = namer();
  if (!who || end_.asked == who) return;
  end_.asked = who;
  send({.replica = *who, .stage = {0}}, MessageKind::kNameEnd, 0, outbox);
}

void Coordinator::order_save(Outbox& outbox) {
  if (const int64_t update = std::exchange(save_to_tell_, 0); update > 0) {
    for (const ReplicaId replica : table_.members()) {
      send({.replica = replica, .stage = {0}}, MessageKind::kSaveBy, update, outbox);
    }
  }
  if (!save_.wanted) return;
  const std::optional<ReplicaId> who = namer();
  if (!who) save_ = {};
  if (!who || save_.asked == who) return;
  save_.asked = who;
  if (save_.number == 0) {
    save_.number = newest_question_ = std::max(newest_update(), newest_question_) + 1;
  }
  send({.replica = *who, .stage = {0}}, MessageKind::kNameSave, save_.number, outbox);
}

void Coordinator::tell(size_t at, Outbox& outbox) {
  Seat& seat = seats_[at];
  const WorkerId to = plan_.mesh().id(at);
  if (over_) {
    if (std::exchange(seat.told_over, true)) return;
    return send(to, MessageKind::kOver, abandoned_ ? 1 : 0, outbox);
  }
  const bool unknown = has_to_tell(seat);
  if ((unknown || seat.gap) && !std::exchange(seat.asked_again, true)) {
    const int64_t heard = unknown ? 0 : seat.next_report - 1;
    send(to, MessageKind::kTellAgain, heard, outbox, /*update=*/unknown ? 1 : 0);
  }
  if (seat.told_table < table_.number()) {
    seat.told_table = table_.number();
    send(to, MessageKind::kTable, newest_update(), outbox);
  }
  if (end_.named > 0 && seat.ends == 0 && !std::exchange(seat.told_end, true)) {
    send(to, MessageKind::kEndAt, end_.named, outbox);
  }
}

void Coordinator::send(WorkerId to, MessageKind kind, int64_t index, Outbox& outbox,
                       int64_t update) const {
  Message message = {
      .kind = kind, .from = kCoordinator, .to = to, .index = index, .update = update};
  message.envelope = {.run = plan_.run,
                      .recipe = plan_.recipe,
                      .table = table_.number(),
                      .incarnation = seat(to).incarnation,
                      .ends = end_.named,
                      .saves = newest_save_};
  if (kind == MessageKind::kTable) message.table = std::make_shared<const Membership>(table_);
  outbox.send(std::move(message));
}

}  // namespace leeway
