#include "worker/chunk_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace leeway {
namespace {

// Two copies have the same chain only if they have applied the same answers.
uint64_t link(uint64_t chain, const Message& answer, uint64_t hash) {
  ByteWriter writer;
  writer.put(answer.index);
  for (const PartId& part : answer.parts) writer.put(part);
  writer.put(hash);
  const std::vector<std::byte> bytes = writer.take();
  return hash_bytes(bytes, chain);
}

}  // namespace

ChunkLog::ChunkLog(ChunkPosition begin, const Limits& limits)
    : position_(std::move(begin)),
      limits_(limits),
      received_(position_.answer),
      heard_of_(received_) {
  chains_[position_.answer] = position_.chain;
}

// One that mends a chunk may be older than what was applied since: that is kept, and applied again.
bool ChunkLog::takes(const Message& whole) const {
  if (!limits_.keeps_all && !wholes_.empty()) {
    const Message& there = wholes_.begin()->second;
    if (there.index >= whole.index && there.mends >= whole.mends) return false;
  }
  if (whole.index > applied()) return true;
  const std::optional<uint64_t> own = chain_at(whole.index);
  return whole.mends && own && *own != whole.chain;
}

void ChunkLog::deliver(Message answer) {
  const int64_t number = answer.index;
  if (answer.whole) return deliver_whole(std::move(answer));
  if (number <= received_) return;
  heard_of_ = std::max(heard_of_, number);
  // The next one is worth more than those after it.
  while (number == received_ + 1 && !has_room() && !beyond_.empty()) {
    const auto last = std::prev(beyond_.end());
    waiting_bytes_ -= last->second.payload_bytes;
    beyond_.erase(last);
  }
  const bool far = number > applied() + limits_.waiting;
  if (!has_room() || (far && !limits_.keeps_all)) return;
  const int64_t bytes = answer.payload_bytes;
  if (!beyond_.try_emplace(number, std::move(answer)).second) return;
  waiting_bytes_ += bytes;
  close_gap();
  forget_old();
}

void ChunkLog::deliver_whole(Message whole) {
  if (!takes(whole)) return;
  if (!limits_.keeps_all) wholes_.clear();
  const int64_t number = whole.index;
  wholes_.insert_or_assign(number, std::move(whole));
}

bool ChunkLog::has_room() const {
  if (waiting() == 0 || limits_.keeps_all) return true;
  return received_ < applied() + limits_.waiting && waiting_bytes_ < limits_.bytes;
}

double ChunkLog::worth_keeping(double chunk_bytes, double answer_bytes,
                               std::optional<int64_t> lag) {
  constexpr int64_t kLeast = 4;
  const int64_t least = lag ? std::max(kLeast, 2 * *lag + 2) : kLeast;
  return std::min(std::max(chunk_bytes, static_cast<double>(least) * answer_bytes),
                  static_cast<double>(kKept) * answer_bytes);
}

void ChunkLog::forget_old() {
  while (!answers_.empty() && answers_.begin()->first <= applied()) {
    const bool old = answers_.begin()->first <= applied() - kKept;
    if (!old && kept_bytes_ <= limits_.kept_bytes &&
        kept_bytes_ + waiting_bytes_ <= limits_.bytes) {
      return;
    }
    kept_bytes_ -= answers_.begin()->second.payload_bytes;
    answers_.erase(answers_.begin());
  }
}

void ChunkLog::count_bytes() {
  kept_bytes_ = waiting_bytes_ = 0;
  for (const auto& [number, answer] : answers_) {
    (number <= applied() ? kept_bytes_ : waiting_bytes_) += answer.payload_bytes;
  }
  for (const auto& [number, answer] : beyond_) waiting_bytes_ += answer.payload_bytes;
}

void ChunkLog::close_gap() {
  for (auto next = beyond_.find(received_ + 1); next != beyond_.end();
       next = beyond_.find(received_ + 1)) {
    answers_.insert(beyond_.extract(next));
    ++received_;
  }
}

const Message* ChunkLog::next() const {
  const Message* const whole = wholes_.empty() ? nullptr : &wholes_.begin()->second;
  if (whole != nullptr && whole->mends) return whole;
  if (applied() < received_) return find(applied() + 1);
  return whole != nullptr && whole->index > applied() ? whole : nullptr;
}

const Message* ChunkLog::next(int64_t number, bool whole) const {
  if (!whole) return number == applied() + 1 && number <= received_ ? find(number) : nullptr;
  const auto found = wholes_.find(number);
  return found == wholes_.end() ? nullptr : &found->second;
}

void ChunkLog::cut(int64_t received) {
  LEEWAY_CHECK(received >= applied(), "what was applied had come");
  beyond_.clear();
  if (!limits_.keeps_all) wholes_.clear();
  answers_.erase(answers_.upper_bound(received), answers_.end());
  received_ = std::min(received_, received);
  heard_of_ = received_;
  count_bytes();
}

void ChunkLog::apply(const Message& answer, uint64_t hash) {
  since_ = answer.since;
  ended_ = answer.ended;
  if (answer.whole) {
    apply_whole(answer.index);
  } else {
    LEEWAY_CHECK(answer.index == applied() + 1, "answers are applied in order");
    position_.answer = answer.index;
    position_.chain = link(position_.chain, answer, hash);
    for (const PartId& part : answer.parts) position_.count(part);
    kept_bytes_ += answer.payload_bytes;
    waiting_bytes_ -= answer.payload_bytes;
  }
  std::erase_if(wholes_,
                [&](const auto& whole) { return !whole.second.mends && whole.first <= applied(); });
  chains_[applied()] = position_.chain;
  chains_.erase(chains_.begin(), chains_.lower_bound(applied() - kKept + 1));
  forget_old();
}

void ChunkLog::apply_whole(int64_t number) {
  const Message whole = std::move(wholes_.extract(number).mapped());
  position_.answer = whole.index;
  position_.chain = whole.chain;
  position_.counted = whole.counted;
  chains_.erase(chains_.upper_bound(applied()), chains_.end());
  const bool lacks_next = applied() < received_ && find(applied() + 1) == nullptr;
  if (lacks_next) {  // it went back to before what is kept: those are asked for
    answers_.clear();
    received_ = applied();
  }
  if (applied() > received_) {
    received_ = applied();
    heard_of_ = std::max(heard_of_, received_);
    beyond_.erase(beyond_.begin(), beyond_.upper_bound(applied()));
    close_gap();
  }
  count_bytes();
}

const Message* ChunkLog::find(int64_t number) const {
  const auto found = answers_.find(number);
  return found == answers_.end() ? nullptr : &found->second;
}

std::optional<uint64_t> ChunkLog::chain_at(int64_t number) const {
  const auto found = chains_.find(number);
  return found == chains_.end() ? std::nullopt : std::optional(found->second);
}

bool has_part(const Message& answer, const PartId& part) {
  return std::ranges::binary_search(answer.parts, part);
}

int64_t newest_part(const Message& answer, ReplicaId replica) {
  int64_t newest = 0;
  for (const PartId& part : answer.parts) {
    if (part.replica == replica) newest = std::max(newest, part.number);
  }
  return newest;
}

}  // namespace leeway
