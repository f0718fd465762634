#include "worker/common_member.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace leeway {

CommonMember::CommonMember(const LanePlan& plan, WorkerId worker, const Start& start)
    : plan_(plan),
      replica_(worker.replica),
      last_update_(start.updates),
      last_number_(start.contributions) {
  const int64_t chunks = plan.chunks(worker.stage);
  LEEWAY_CHECK(start.chunks.empty() || std::ssize(start.chunks) == chunks, "a place per chunk");
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    ChunkLog::Limits limits = {.keeps_all = plan.replays};
    if (!plan.sizes.empty()) {
      // Not as they are packed: that is only expected, and a worker on a GPU has them as they are.
      const int64_t most =
          plan.sizes[static_cast<size_t>(worker.stage.value)].bytes_max(chunk, chunks);
      const auto whole = static_cast<double>(plan.whole_bytes(worker.stage, chunk));
      limits.kept_bytes = static_cast<int64_t>(
          ChunkLog::worth_keeping(whole, static_cast<double>(most), plan.lag_updates()));
      // Those at the end of a run are exact, and larger. Where members wait for each other, none
      // drops anything, and little can come.
      if (!plan.lag_backwards && most > 0) limits.bytes = ChunkLog::kKept * most;
    }
    logs_.emplace_back(
        start.chunks.empty() ? ChunkPosition() : start.chunks[static_cast<size_t>(chunk)], limits);
  }
}

void CommonMember::deliver(Message message) {
  logs_[static_cast<size_t>(message.chunk)].deliver(std::move(message));
}

CommonMember::Contribution CommonMember::contribution_due(const Boundary& boundary,
                                                          bool last) const {
  if (ended_) return Contribution::kNone;
  if (boundary.saved) return ends_ ? Contribution::kEnd : Contribution::kWait;
  if (last && !ends_) return Contribution::kSteps;
  const int64_t update = boundary.updates;
  const bool due = update > last_update_ && update % (plan_.interval * stretch_) == 0;
  if (!last && !ends_ && due) return Contribution::kSteps;
  if (!boundary.ends) return Contribution::kNone;
  if (!flights_.empty()) return ends_ ? Contribution::kNone : Contribution::kWait;
  return last && lost_at_end_ ? Contribution::kSteps : Contribution::kEnd;
}

bool CommonMember::may_send(int64_t chunk) const {
  return std::ranges::count_if(flights_, [&](const auto& flight) {
           return flight.second.open[static_cast<size_t>(chunk)];
         }) < kUnderWayMax;
}

// With a fixed lag: an answer to what was sent too short a time ago.
bool CommonMember::is_early(const Message& answer, int64_t backwards_done, bool flush) const {
  if (!plan_.lag_backwards || flush) return false;
  const int64_t newest = newest_part(answer, replica_);
  const auto flight = flights_.find(newest);
  return flight != flights_.end() && flight->second.awaited &&
         lag_backwards(flight->second, backwards_done) < *plan_.lag_backwards;
}

CommonMember::Due CommonMember::due(int64_t chunk, int64_t backwards_done) const {
  const ChunkLog& log = logs_[static_cast<size_t>(chunk)];
  const Message* const answer = log.next();
  Due due = {.number = answer == nullptr ? log.applied() + 1 : answer->index,
             .chunk = chunk,
             .arrived = answer != nullptr};
  if (answer == nullptr) return due;
  const auto flight = flights_.find(newest_part(*answer, replica_));
  due.whole = answer->whole;
  due.counts = flight != flights_.end();
  if (due.counts) due.lag_backwards = lag_backwards(flight->second, backwards_done);
  return due;
}

std::optional<CommonMember::Due> CommonMember::merge_due(int64_t backwards_done, bool flush) const {
  for (int64_t chunk = 0; chunk < std::ssize(logs_); ++chunk) {
    const Message* const answer = log(chunk).next();
    if (answer != nullptr && !is_early(*answer, backwards_done, flush)) {
      return due(chunk, backwards_done);
    }
  }
  if (!plan_.lag_backwards) return std::nullopt;
  for (const auto& [number, flight] : flights_) {
    if (!flight.awaited) continue;
    if (!flush && lag_backwards(flight, backwards_done) < *plan_.lag_backwards) break;
    const auto open = std::ranges::find(flight.open, true);
    if (open != flight.open.end()) return due(open - flight.open.begin(), backwards_done);
  }
  return std::nullopt;
}

bool CommonMember::drained(const ReplicaSet& members) const {
  return std::ranges::all_of(logs_,
                             [&](const ChunkLog& log) { return log.ended().has_all(members); });
}

// Parts of one sender are taken in order, so one that is older than what the answer has is lost;
// and so is what was sent to an owner that is no more. Of one that is older than what a whole chunk
// remembers nobody knows: it must not count twice.
CommonMember::Settled CommonMember::settles(const Message& answer) const {
  if (answer.whole) return settles_whole(answer);
  Settled settled;
  const int64_t newest = newest_part(answer, replica_);
  for (const auto& [number, flight] : flights_) {
    if (!flight.open[static_cast<size_t>(answer.chunk)]) continue;
    if (has_part(answer, {replica_, number})) {
      settled.in.push_back(number);
    } else if (number < newest || flight.table < answer.since) {
      settled.lost.push_back(number);
    }
  }
  return settled;
}

CommonMember::Settled CommonMember::settles_whole(const Message& answer) const {
  Settled settled;
  const auto own = std::ranges::find(answer.counted, replica_, &CountedParts::replica);
  const CountedParts counted = own == answer.counted.end() ? CountedParts() : *own;
  for (const auto& [number, flight] : flights_) {
    if (!flight.open[static_cast<size_t>(answer.chunk)]) continue;
    const bool unknown = !counted.knows(number);
    if (unknown) ++settled.unknown;
    if (unknown || counted.has(number)) {
      settled.in.push_back(number);
    } else if (number < counted.newest || flight.table < answer.since) {
      settled.lost.push_back(number);
    }
  }
  return settled;
}

void CommonMember::contributed(int64_t number, int64_t update, int64_t table,
                               const std::vector<bool>& sent, bool ends) {
  LEEWAY_CHECK(number - last_number_ <= 1, "contributions are numbered without gaps");
  last_number_ = number;
  last_update_ = update;
  ended_ = sent.empty();
  ends_ = ends;
  // What could not be sent is left, as if it had been lost.
  lost_at_end_ = ends && std::ranges::find(sent, false) != sent.end();
  if (std::ranges::find(sent, true) == sent.end()) return;
  flights_[number] = {.update = update, .table = table, .open = sent};
  LEEWAY_CHECK(plan_.lag_backwards || std::ssize(flights_) <= kUnderWayMax * std::ssize(logs_),
               "no chunk has more under way than it may");
}

void CommonMember::merged(const Message& answer, double lag_updates, uint64_t hash) {
  constexpr double kFading = 0.9;
  const auto chunk = static_cast<size_t>(answer.chunk);
  const Settled settled = settles(answer);
  lost_ += std::ssize(settled.lost);
  unknown_ += settled.unknown;
  lost_at_end_ = lost_at_end_ || (ends_ && !settled.lost.empty());
  for (const std::vector<int64_t>* numbers : {&settled.in, &settled.lost}) {
    for (const int64_t number : *numbers) {
      Flight& flight = flights_.at(number);
      flight.open[chunk] = false;
      if (std::ranges::find(flight.open, true) == flight.open.end()) flights_.erase(number);
    }
  }
  if (plan_.lag_limit > 0) {
    recent_lag_ = kFading * recent_lag_ + (1 - kFading) * lag_updates;
    stretch_wanted_ = std::max<int64_t>(1, std::llround(std::ceil(recent_lag_ / plan_.lag_limit)));
    stretch_ = std::clamp<int64_t>(answer.stretch, 1, kStretchMax);
  }
  logs_[chunk].apply(answer, hash);
}

void CommonMember::begin_session() {
  ends_ = lost_at_end_ = ended_ = false;
  for (ChunkLog& log : logs_) log.begin_session();
}

void CommonMember::adopt(const std::vector<int64_t>& moved, const std::vector<int64_t>& have) {
  for (auto& [number, flight] : flights_) flight.awaited = false;
  for (const int64_t chunk : moved) {
    logs_[static_cast<size_t>(chunk)].cut(have[static_cast<size_t>(chunk)]);
  }
}

int64_t CommonMember::newest_under_way(int64_t chunk) const {
  const auto newest = std::find_if(flights_.rbegin(), flights_.rend(), [&](const auto& flight) {
    return flight.second.open[static_cast<size_t>(chunk)];
  });
  return newest == flights_.rend() ? 0 : newest->first;
}

void CommonMember::add_to(Held& held) const {
  held.rounds += std::ssize(flights_);
  for (const ChunkLog& log : logs_) {
    held.answers += log.waiting();
    held.given += log.kept();
  }
}

}  // namespace leeway
