#include "worker/round_member.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace leeway {

RoundMember::RoundMember(const LanePlan& plan, StageId stage, int64_t updates_done,
                         int64_t next_round)
    : plan_(plan),
      stage_(stage),
      last_update_(updates_done),
      last_round_(next_round - 1),
      newest_heard_(next_round - 1),
      wanted_from_(next_round) {}

void RoundMember::heard_of(int64_t round) { newest_heard_ = std::max(newest_heard_, round); }

// Whether an answer is dropped depends on what this worker has done, not on what it has heard: a
// replay hears of everything earlier, and must drop the same answers as the run.
void RoundMember::deliver(Message message) {
  const int64_t round = message.index;
  heard_of(round);
  answered_ = std::max(answered_, round);
  take_stretch(round, message.stretch);
  const auto flight = flights_.find(round);
  const bool known = flight != flights_.end();
  const bool given_up =
      round < wanted_from_ || round <= last_round_ - kFlightsMax || orphans_.contains(round);
  if (!known && given_up) return;
  if (known && flight->second.merged[static_cast<size_t>(message.chunk)]) return;
  // An answer that comes twice, or from two owners after a change of members, counts once.
  if (merged_.contains({round, message.chunk})) return;
  answers_.emplace(std::pair(round, message.chunk), std::move(message));
  if (static_cast<int64_t>(answers_.size()) > kAnswersMax * chunks()) {
    answers_.erase(answers_.begin());
    ++missed_;
  }
}

// Messages are not trusted, so neither is this factor.
void RoundMember::take_stretch(int64_t round, int64_t stretch) {
  if (plan_.lag_limit <= 0 || round < stretch_round_) return;
  const int64_t allowed = std::clamp<int64_t>(stretch, 1, kStretchMax);
  stretch_ = round > stretch_round_ ? allowed : std::max(stretch_, allowed);
  stretch_round_ = round;
}

const Message& RoundMember::answer(int64_t round, int64_t chunk) const {
  LEEWAY_CHECK(has_answer(round, chunk), "a merge is of an answer that has arrived");
  return answers_.at({round, chunk});
}

bool RoundMember::contributes_at(int64_t update) const {
  return update > last_update_ && update % (plan_.interval * stretch_) == 0;
}

int64_t RoundMember::next_round() const {
  const int64_t own = last_round_ + 1;
  if (!plan_.deadline) return own;  // every replica is waited for, so none falls behind
  if (answered_ >= own) return std::max(answered_ + 1, newest_heard_);
  return newest_heard_ > own + kSlack ? newest_heard_ : own;
}

// A worker that has just followed for a cycle counts again, however far ahead the others are by
// then. Otherwise one that loses more than a cycle per round would follow forever.
bool RoundMember::follows() const {
  const int64_t next = next_round();
  // It may hear late how far the fleet is: its cycle begins there.
  if (newcomer_ && (follow_until_ < 0 || next - last_round_ > kSlack)) return true;
  if (last_round_ < follow_until_) return next < follow_until_;
  return next - last_round_ > plan_.cycle + kSlack;
}

std::optional<RoundMember::Due> RoundMember::merge_due(int64_t backwards_done, bool flush) const {
  if (!plan_.lag_backwards) {
    if (answers_.empty()) return std::nullopt;
    const auto [round, chunk] = answers_.begin()->first;
    const auto flight = flights_.find(round);
    const bool sent = flight != flights_.end();
    return Due{.round = round,
               .chunk = chunk,
               .lag_backwards = sent ? lag_backwards(flight->second, backwards_done) : 0,
               .sent = sent,
               .arrived = true};
  }
  for (const auto& [round, flight] : flights_) {
    const int64_t lag = lag_backwards(flight, backwards_done);
    if (!flush && lag < *plan_.lag_backwards) return std::nullopt;
    const auto open = std::find(flight.merged.begin(), flight.merged.end(), false);
    const int64_t chunk = open - flight.merged.begin();
    return Due{.round = round,
               .chunk = chunk,
               .lag_backwards = lag,
               .sent = true,
               .arrived = answers_.contains({round, chunk})};
  }
  return std::nullopt;
}

void RoundMember::contributed(int64_t round, int64_t update, bool sent) {
  LEEWAY_CHECK(round > last_round_, "rounds ascend: a worker takes part in each once");
  LEEWAY_CHECK(update > last_update_, "at most one round of a lane per update");
  const bool jumps = newcomer_ && round - last_round_ > kSlack;
  if (!sent && (jumps || round >= follow_until_)) follow_until_ = round + plan_.cycle;
  if (sent || jumps) newcomer_ = false;
  if (sent) {
    const std::vector<bool> merged(static_cast<size_t>(chunks()), false);
    flights_[round] = {.update = update, .merged = merged};
  }
  orphans_.erase(orphans_.begin(), orphans_.upper_bound(round - kFlightsMax));
  merged_.erase(merged_.begin(), merged_.lower_bound({round - kFlightsMax + 1, 0}));
  last_round_ = round;
  last_update_ = update;
  heard_of(round);
  // Answers from rounds that are long past would pull the weights back.
  const auto recent = answers_.lower_bound({round - kFlightsMax + 1, 0});
  missed_ += std::distance(answers_.begin(), recent);
  answers_.erase(answers_.begin(), recent);
  check_bounds();
}

// Old flights and answers are dropped, so even a worker that gets no answers keeps few of both.
void RoundMember::check_bounds() const {
  const auto chunks = static_cast<size_t>(this->chunks());
  LEEWAY_CHECK(plan_.lag_backwards || flights_.size() <= kFlightsMax, "old flights were given up");
  LEEWAY_CHECK(answers_.size() <= kAnswersMax * chunks, "old answers were dropped");
}

void RoundMember::merged(int64_t round, int64_t chunk, double lag_updates) {
  constexpr double kFading = 0.9;
  // While it was merged, answers that came in may have pushed it out.
  answers_.erase({round, chunk});
  merged_.emplace(round, chunk);
  if (plan_.lag_limit > 0) {
    recent_lag_ = kFading * recent_lag_ + (1 - kFading) * lag_updates;
    stretch_wanted_ = std::max<int64_t>(1, std::llround(std::ceil(recent_lag_ / plan_.lag_limit)));
  }
  const auto flight = flights_.find(round);
  if (flight == flights_.end()) return;
  LEEWAY_CHECK(!flight->second.merged[static_cast<size_t>(chunk)], "a chunk is merged once");
  flight->second.merged[static_cast<size_t>(chunk)] = true;
  const auto& merged = flight->second.merged;
  if (std::find(merged.begin(), merged.end(), false) == merged.end()) flights_.erase(flight);
}

std::vector<int64_t> RoundMember::stale(int64_t next_round) const {
  std::vector<int64_t> stale;
  if (plan_.lag_backwards) return stale;  // with a fixed lag it waits for its answers
  for (const auto& [round, flight] : flights_) {
    if (round <= next_round - kFlightsMax) stale.push_back(round);
  }
  return stale;
}

std::vector<int64_t> RoundMember::in_flight() const {
  std::vector<int64_t> rounds;
  for (const auto& [round, flight] : flights_) rounds.push_back(round);
  return rounds;
}

std::vector<int64_t> RoundMember::orphaned(const Membership& before,
                                           const Membership& after) const {
  // Between two tables that this worker knows there may be one by which others have gone.
  const bool skips = plan_.lag_backwards && after.number() > before.number() + 1;
  std::vector<int64_t> rounds;
  for (const auto& [round, flight] : flights_) {
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      if (flight.merged[static_cast<size_t>(chunk)]) continue;
      if (!skips && plan_.owner(round, chunk, before) == plan_.owner(round, chunk, after)) continue;
      rounds.push_back(round);
      break;
    }
  }
  return rounds;
}

void RoundMember::forget(int64_t round) {
  const auto node = flights_.extract(round);
  LEEWAY_CHECK(!node.empty(), "a round in flight is forgotten once");
  const std::vector<bool>& merged = node.mapped().merged;
  missed_ += std::count(merged.begin(), merged.end(), false);
  // An answer that has just arrived is too late as well: the part it answers is forgotten.
  answers_.erase(answers_.lower_bound({round, 0}), answers_.lower_bound({round + 1, 0}));
}

void RoundMember::forget_orphan(int64_t round) {
  forget(round);
  orphans_.insert(round);
}

void RoundMember::restart(int64_t updates, int64_t next_round) {
  const int64_t dropped = dropped_ + static_cast<int64_t>(flights_.size());
  const int64_t missed = missed_;
  const int64_t heard = newest_heard_;
  *this = RoundMember(plan_, stage_, updates, std::max(next_round, rounds_begun()));
  heard_of(heard);
  newcomer_ = true;
  dropped_ = dropped;
  missed_ = missed;
}

void RoundMember::flush() {
  dropped_ += static_cast<int64_t>(flights_.size());
  flights_.clear();
  wanted_from_ = last_round_ + 1;
  // Answers of later rounds, from replicas that are ahead, stay. Whether they have arrived yet must
  // not matter, because a replay hears of them earlier.
  answers_.erase(answers_.begin(), answers_.lower_bound({wanted_from_, 0}));
}

}  // namespace leeway
