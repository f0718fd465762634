// The last verb of a worker's part in a common model: what it sends, and to whom.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/common_model.h"

namespace leeway {
namespace {

constexpr Nanos kNudgeAfter = {1'000'000'000};

}  // namespace

void CommonModel::finish(const Work& work, const Outcome& outcome, const FleetPace& pace,
                         Outbox& outbox, std::vector<Message>& sent) {
  busy_.reset();
  finish_work(work, outcome, pace, outbox, sent);
  for (Message& message : std::exchange(meanwhile_, {})) file(std::move(message));
}

void CommonModel::finish_work(const Work& work, const Outcome& outcome, const FleetPace& pace,
                              Outbox& outbox, std::vector<Message>& sent) {
  switch (work.kind) {
    case WorkKind::kContribute:
      return finish_contribution(work, outcome, pace, outbox, sent);
    case WorkKind::kReduce:
      return finish_reduction(work, outcome, sent);
    case WorkKind::kMerge:
      return member_.merged(*answer_of(work), lag_of(work), outcome.hash);
    case WorkKind::kRepeat:
      return finish_repetition(work, outcome, sent);
    default:
      if (work.index == kNudge) return finish_nudge(work, outcome, pace, outbox, sent);
      return finish_wait(work, pace, outbox, sent);
  }
}

Message CommonModel::message(MessageKind kind, const Work& work, ReplicaId to,
                             const at::Tensor& payload) const {
  return round_message(kind, id_, to, work, payload);
}

// A code on a GPU is packed on its way (worker/packing.h): what counts is how long it should be.
int64_t CommonModel::bytes_on_the_way(int64_t chunk, const at::Tensor& payload) const {
  const bool packs = !payload.is_cpu() && payload.scalar_type() == at::kByte;
  return packs ? lane_.bytes(id_.stage, 0, chunk) : static_cast<int64_t>(payload.nbytes());
}

// Without a payload: where this worker is.
Message CommonModel::contribution(const Work& work) const {
  Message part = message(MessageKind::kContribution, work, owner(work.chunk, table_), at::Tensor());
  const ChunkLog& log = member_.log(work.chunk);
  part.have = log.received();
  part.chained = log.applied();
  part.chain = log.position().chain;
  if (member_.has_ended()) part.ended = ReplicaSet::of(id_.replica);
  return part;
}

void CommonModel::post(Message message, std::vector<Message>& sent) {
  if (message.to != id_) return sent.push_back(std::move(message));
  message.envelope.table = table_.number();
  deliver(std::move(message));
}

void CommonModel::send_part(const Work& work, int64_t chunk, const at::Tensor& payload, bool counts,
                            const FleetPace& pace, std::vector<Message>& sent) {
  Work of_chunk = work;
  of_chunk.chunk = chunk;
  of_chunk.replicas = counts ? ReplicaSet::of(id_.replica) : ReplicaSet();
  Message part = contribution(of_chunk);
  if (payload.defined()) {
    part.payload = payload;
    part.payload_bytes = bytes_on_the_way(chunk, payload);
  } else if (counts && !lane_.sizes.empty()) {
    // The last one of a run is exact.
    part.payload_bytes = is_last(work.update) ? lane_.whole_bytes(id_.stage, chunk)
                                              : lane_.bytes(id_.stage, work.index, chunk);
  }
  part.since = counts ? member_.table_of(work.index) : table_.number();
  part.update_time = pace.update_times[static_cast<size_t>(id_.replica.value)];
  part.stretch = member_.stretch_wanted();
  post(std::move(part), sent);
}

// Who has what this worker lacks of a chunk: its owner, or, for one that takes it over, whoever has
// most.
std::optional<ReplicaId> CommonModel::has_more(int64_t chunk) const {
  const ReplicaId owner = this->owner(chunk, table_);
  if (owner != id_.replica) return owner;
  const auto ahead = owners_[static_cast<size_t>(chunk)].ahead(member_.log(chunk).received());
  return ahead ? std::optional(ahead->first) : std::nullopt;
}

// What is missing is asked for now and then: the question may be lost as well.
void CommonModel::ask_for_missing(int64_t chunk, int64_t now, std::vector<Message>& sent) {
  const std::optional<ReplicaId> whom = has_more(chunk);
  if (!whom) return;
  const int64_t lacks = member_.log(chunk).received() + 1;
  Asked& asked = asked_[static_cast<size_t>(chunk)];
  const bool again = asked.number == lacks;
  if (again && now < asked.at + asked.wait) return;
  asked = {.number = lacks, .at = now, .wait = again ? std::min(2 * asked.wait, kAskAfter) : 2};
  Message question =
      message(MessageKind::kAskAgain, work(WorkKind::kRepeat, 0, lacks, chunk), *whom, {});
  question.have = member_.log(chunk).gap_end();
  post(std::move(question), sent);
}

void CommonModel::finish_contribution(const Work& work, const Outcome& outcome,
                                      const FleetPace& pace, Outbox& outbox,
                                      std::vector<Message>& sent) {
  const bool steps = !work.replicas.empty();
  const bool is_end = !steps && (member_.is_settled() || member_.ends());
  const bool ends = !steps || is_last(work.update);
  const std::vector<bool> sends = steps    ? may_send()
                                  : is_end ? std::vector<bool>()
                                           : std::vector<bool>(owners_.size(), false);
  const std::vector<int64_t> again =
      steps ? sends_again(work.index) : std::vector<int64_t>(owners_.size(), 0);
  member_.contributed(work.index, work.update, table_.number(), sends, ends);
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    const at::Tensor payload = outcome.parts.empty() ? at::Tensor() : outcome.parts[at];
    Work part = work;
    if (again[at] > 0) part.index = again[at];
    send_part(part, chunk, payload, steps && (sends[at] || again[at] > 0), pace, sent);
    const bool mine = owner(chunk, table_) == id_.replica;
    if (mine || member_.log(chunk).has_gap()) ask_for_missing(chunk, work.index, sent);
  }
  if (ends) remind_of_the_end(outbox);
}

void CommonModel::remind_of_the_end(Outbox& outbox) {
  if (std::exchange(reminded_, true)) return;
  const Work nudge = work(WorkKind::kAwait, 0, kNudge, 0);
  outbox.remind(message(MessageKind::kDeadline, nudge, id_.replica, {}), kNudgeAfter);
}

// Nothing comes after the last contribution that would show that it was lost, or its answer.
void CommonModel::finish_nudge(const Work& work, const Outcome& outcome, const FleetPace& pace,
                               Outbox& outbox, std::vector<Message>& sent) {
  nudged_ = false;
  if (std::exchange(tells_, false)) tell_positions(sent);
  if (!member_.ends() || member_.drained(table_.members())) return;
  const bool lost = takes_for_lost();
  if (!reminded_) ++nudges_;  // not by a table
  Work newest = work;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    const at::Tensor payload = outcome.parts.empty() ? at::Tensor() : outcome.parts[at];
    const int64_t under_way = lost ? member_.newest_under_way(chunk) : 0;
    const bool again = under_way > 0 && (compute_ == nullptr || payload.defined());
    newest.index = again ? under_way : contributions();
    send_part(newest, chunk, payload, again, pace, sent);
    asked_[at] = {};
    if (lost || member_.log(chunk).has_gap()) ask_for_missing(chunk, contributions(), sent);
    for (const ReplicaId replica : owners_[at].unheard_of()) {
      const Work question = this->work(WorkKind::kRepeat, 0, kWhere, chunk);
      post(message(MessageKind::kAskAgain, question, replica, {}), sent);
    }
  }
  remind_of_the_end(outbox);
}

void CommonModel::finish_reduction(const Work& work, const Outcome& outcome,
                                   std::vector<Message>& sent) {
  CommonOwner& owner = owners_[static_cast<size_t>(work.chunk)];
  Message answer = message(MessageKind::kAnswer, work, id_.replica, outcome.payload);
  answer.payload_bytes = outcome.payload.defined() ? bytes_on_the_way(work.chunk, outcome.payload)
                                                   : owner.largest(work.parts);
  answer.parts = work.parts;
  answer.ended = owner.ended();
  answer.stretch = owner.stretch(work.parts);
  answer.since = owner.since();
  owner.closed(work.parts);
  for (const ReplicaId replica : table_.members()) {
    answer.to.replica = replica;
    post(answer, sent);
  }
}

// One that lacks answers which nobody keeps any more gets what they have made of the chunk.
bool CommonModel::gives_whole(const Work& repeat) const {
  return member_.log(repeat.chunk).find(repeat.index) == nullptr;
}

Message CommonModel::whole_chunk(const Work& repeat, const at::Tensor& payload) const {
  const ChunkLog& log = member_.log(repeat.chunk);
  Message whole = message(MessageKind::kAnswer, repeat, id_.replica, payload);
  if (!payload.defined()) {
    whole.payload_bytes = lane_.sizes.empty() ? 0 : lane_.whole_bytes(id_.stage, repeat.chunk);
  }
  whole.index = log.applied();
  whole.chain = log.position().chain;
  whole.counted = log.position().counted;
  whole.since = log.since();
  whole.ended = log.ended();
  whole.whole = true;
  whole.mends = repeat.index == kMends;
  return whole;
}

void CommonModel::finish_repetition(const Work& work, const Outcome& outcome,
                                    std::vector<Message>& sent) {
  const bool whole = gives_whole(work);
  const ChunkLog& log = member_.log(work.chunk);
  const Message answer = whole ? whole_chunk(work, outcome.payload) : *log.find(work.index);
  for (const ReplicaId replica : work.replicas) {
    Message again = answer;
    again.from = id_;
    again.to.replica = replica;
    again.again = true;
    if (again.payload.defined()) again.payload_bytes = bytes_on_the_way(work.chunk, again.payload);
    post(std::move(again), sent);
    for (Ask& ask : asks_) {
      const bool this_one =
          ask.replica == replica && ask.chunk == work.chunk && ask.number == work.index;
      if (this_one) ask.number = answer.index + 1;
    }
  }
  std::erase_if(asks_, [&](const Ask& ask) {
    return ask.number > std::min(ask.last, member_.log(ask.chunk).received());
  });
}

void CommonModel::finish_wait(const Work& work, const FleetPace& pace, Outbox& outbox,
                              std::vector<Message>& sent) {
  const auto at = static_cast<size_t>(work.chunk);
  CommonOwner& owner = owners_[at];
  if (asks(work.chunk)) {
    const auto ahead = owner.ahead(member_.log(work.chunk).received());
    asked_[at] = {.number = work.index, .at = contributions()};
    post(message(MessageKind::kAskAgain, work, ahead->first, {}), sent);
  }
  const int64_t received = member_.log(work.chunk).received();
  if (owner.brings_up(received)) {
    for (const auto& [replica, number] : owner.behind(received)) {
      asks_.push_back({replica, work.chunk, number});
    }
    owner.brought_up();
  }
  if (!owner.await_due()) return;
  owner.awaits();
  FleetPace own = pace;
  for (const ReplicaId replica : owner.absent()) own.absent.add(replica);
  own.stretch = member_.stretch();
  outbox.remind(message(MessageKind::kDeadline, work, id_.replica, {}), deadline_of(lane_, own));
}

}  // namespace leeway
