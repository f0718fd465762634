#include "worker/chunk_log.h"

#include <algorithm>
#include <span>
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

int64_t bytes_of(const auto& answers) {
  int64_t bytes = 0;
  for (const auto& [number, answer] : answers) bytes += answer.payload_bytes;
  return bytes;
}

}  // namespace

ChunkLog::ChunkLog(ChunkPosition begin, int64_t bytes_max)
    : position_(std::move(begin)),
      bytes_max_(bytes_max),
      received_(position_.answer),
      heard_of_(received_) {
  chains_[position_.answer] = position_.chain;
}

// One that mends a chunk may be older than what was applied since: that is kept, and applied again.
bool ChunkLog::takes(const Message& whole) const {
  if (whole_ && whole_->index >= whole.index && whole_->mends >= whole.mends) return false;
  if (whole.index > applied()) return true;
  const std::optional<uint64_t> own = chain_at(whole.index);
  return whole.mends && own && *own != whole.chain;
}

void ChunkLog::deliver(Message answer) {
  const int64_t number = answer.index;
  if (answer.whole) {
    if (takes(answer)) whole_ = std::move(answer);
    return;
  }
  if (number <= received_) return;
  heard_of_ = std::max(heard_of_, number);
  // The next one is worth more than those after it.
  while (number == received_ + 1 && !has_room() && !beyond_.empty()) {
    beyond_.erase(std::prev(beyond_.end()));
  }
  if (!has_room() || number > applied() + kWaitingMax) return;
  beyond_.try_emplace(number, std::move(answer));
  close_gap();
  forget_old();
}

bool ChunkLog::has_room() const {
  if (waiting() == 0) return true;
  const auto next = std::ranges::subrange(answers_.upper_bound(applied()), answers_.end());
  return received_ < applied() + kWaitingMax && bytes_of(next) + bytes_of(beyond_) < bytes_max_;
}

void ChunkLog::forget_old() {
  answers_.erase(answers_.begin(), answers_.lower_bound(applied() - kKept + 1));
  while (!answers_.empty() && answers_.begin()->first <= applied() &&
         bytes_of(answers_) + bytes_of(beyond_) > bytes_max_) {
    answers_.erase(answers_.begin());
  }
}

void ChunkLog::close_gap() {
  for (auto next = beyond_.find(received_ + 1); next != beyond_.end();
       next = beyond_.find(received_ + 1)) {
    answers_.insert(beyond_.extract(next));
    ++received_;
  }
}

const Message* ChunkLog::next() const {
  if (whole_ && whole_->mends) return &*whole_;
  if (applied() < received_) return find(applied() + 1);
  return whole_ && whole_->index > applied() ? &*whole_ : nullptr;
}

void ChunkLog::cut(int64_t received) {
  LEEWAY_CHECK(received >= applied(), "what was applied had come");
  beyond_.clear();
  whole_.reset();
  answers_.erase(answers_.upper_bound(received), answers_.end());
  received_ = std::min(received_, received);
  heard_of_ = received_;
}

void ChunkLog::apply(uint64_t hash) {
  const Message* const answer = next();
  LEEWAY_CHECK(answer != nullptr, "an answer is applied when it has come");
  since_ = answer->since;
  ended_ = answer->ended;
  if (answer->whole) {
    apply_whole();
  } else {
    position_.answer = answer->index;
    position_.chain = link(position_.chain, *answer, hash);
    for (const PartId& part : answer->parts) position_.count(part);
  }
  if (whole_ && !whole_->mends && whole_->index <= applied()) whole_.reset();
  chains_[applied()] = position_.chain;
  forget_old();
  chains_.erase(chains_.begin(), chains_.lower_bound(applied() - kKept + 1));
}

void ChunkLog::apply_whole() {
  position_.answer = whole_->index;
  position_.chain = whole_->chain;
  position_.counted = whole_->counted;
  chains_.erase(chains_.upper_bound(applied()), chains_.end());
  whole_.reset();
  if (applied() <= received_) return;
  received_ = applied();
  heard_of_ = std::max(heard_of_, received_);
  beyond_.erase(beyond_.begin(), beyond_.upper_bound(applied()));
  close_gap();
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
