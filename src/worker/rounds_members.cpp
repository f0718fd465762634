// What a change of members means for rounds, and whether members have the same model.
#include <utility>

#include "worker/rounds.h"

namespace leeway {

void Rounds::run_adoption(const Membership& table) {
  if (compute_ == nullptr) return;
  if (common_) common_->run_adoption(table);
  for (const Seat& lane : seats_) {
    for (const int64_t round : lane.member.orphaned(table_, table)) {
      compute_->averaging().forget(lane.plan.lane, round);
    }
  }
}

// Who has sent a part under an old table must not keep the new owner waiting: with a fixed lag not
// with rounds given up before either, nor one that may have dropped the part in between.
void Rounds::finish_adoption(const Membership& table, const std::vector<int64_t>& have,
                             std::optional<int64_t> copied_elsewhere, std::vector<Message>& sent) {
  const Membership before = std::exchange(table_, table);
  if (common_) common_->finish_adoption(table, have, sent);
  for (Seat& lane : seats_) {
    lane.owner.adopt(table, copied_elsewhere.value_or(-1));
    const bool evaluation = lane.plan.lane == Lane::kEvaluation;
    std::vector<int64_t> begun = lane.member.orphaned(before, table);
    for (const int64_t round : begun) lane.member.forget_orphan(round);
    const bool waits = lane.plan.lag_backwards.has_value();
    if (waits) begun.assign(lane.member.orphans().begin(), lane.member.orphans().end());
    if (evaluation && copied_elsewhere) begun.push_back(*copied_elsewhere);
    if (!table.has(id_.replica)) continue;
    for (const int64_t round : begun) {
      for (int64_t chunk = 0; chunk < lane.plan.chunks(id_.stage); ++chunk) {
        const ReplicaId owner = lane.plan.owner(round, chunk, table);
        if (!waits && owner == lane.plan.owner(round, chunk, before)) continue;
        const Work none = {
            .kind = WorkKind::kContribute, .index = round, .lane = lane.plan.lane, .chunk = chunk};
        Message part = message(MessageKind::kContribution, none, owner, {});
        part.payload_bytes = 0;
        part.update_time = update_time_.get();
        post(std::move(part), sent);
      }
    }
  }
}

void Rounds::restart(const Membership& table, int64_t updates, const std::vector<int64_t>& rounds,
                     const std::vector<ChunkPosition>& chunks, std::vector<Message>& sent) {
  table_ = table;
  if (common_) common_->restart(table, updates, chunks, sent);
  for (size_t at = 0; at < seats_.size(); ++at) {
    Seat& lane = seats_[at];
    const bool evaluation = lane.plan.lane == Lane::kEvaluation;
    lane.owner = RoundOwner(lane.plan, id_);
    lane.owner.adopt(table, /*copied=*/-1);
    if (evaluation) lane.owner.give_up(updates);
    lane.member.restart(updates, at < rounds.size() ? rounds[at] : 0);
  }
}

// The owner of a round's first chunk compares what comes with it, its own included.
void Rounds::compare_models(const Message& part) {
  constexpr size_t kUpdates = 4;
  auto& hashes = model_hashes_[part.chained];
  if (!hashes.try_emplace(part.from.replica, part.chain).second) return;
  const auto own = hashes.find(id_.replica);
  for (const auto& [replica, hash] : hashes) {
    const bool newly = part.from == id_ || replica == part.from.replica;
    if (own == hashes.end() || hash == own->second || !newly) continue;
    Message named = {
        .kind = part.kind, .from = {.replica = replica, .stage = id_.stage}, .to = id_};
    different_.push_back(std::move(named));
    ++differed_;
  }
  if (model_hashes_.size() > kUpdates) model_hashes_.erase(model_hashes_.begin());
}

std::vector<Message> Rounds::take_different() {
  std::vector<Message> all = std::exchange(different_, {});
  if (!common_) return all;
  for (Message& message : common_->take_different()) all.push_back(std::move(message));
  return all;
}

}  // namespace leeway
