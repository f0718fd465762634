#include "worker/common_owner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {

CommonOwner::CommonOwner(const LanePlan& plan, ReplicaId replica, int64_t chunk,
                         const Membership& table)
    : plan_(plan),
      replica_(replica),
      chunk_(chunk),
      table_(table),
      since_(table.number()),
      positions_(static_cast<size_t>(plan.replicas)),
      newest_(static_cast<size_t>(plan.replicas), 0),
      heard_at_(static_cast<size_t>(plan.replicas), 0) {}

void CommonOwner::adopt(const Membership& table, bool moved) {
  for (const ReplicaId replica : table.members()) {
    if (table.epoch(replica) == table_.epoch(replica)) continue;
    positions_[static_cast<size_t>(replica.value)] = {};
    newest_[static_cast<size_t>(replica.value)] = 0;
    std::erase_if(parts_, [&](const auto& part) { return part.first.replica == replica; });
  }
  table_ = table;
  if (moved) since_ = table.number();
  end_is_told_ = false;
  if (!owns()) parts_.clear();
  std::erase_if(parts_, [&](const auto& part) {
    return !table.has(part.first.replica) || part.second.table < since_;
  });
  if (parts_.empty()) awaited_ = expired_ = false;
}

void CommonOwner::begin_session() {
  for (Position& position : positions_) position.ended = false;
  end_is_told_ = false;
}

void CommonOwner::deliver(Message message) {
  if (message.kind == MessageKind::kDeadline) return expire();
  const PartId id = {message.from.replica, message.index};
  const auto from = static_cast<size_t>(id.replica.value);
  Position& position = positions_[from];
  const int64_t table = message.envelope.table;
  if (table >= position.table) {
    position = {.table = table,
                .have = message.have,
                .number = std::max(position.number, id.number),
                .ended = !message.ended.empty()};
  }
  heard_at_[from] = ++arrivals_;
  absent_.remove(id.replica);
  // One that was sent to the owner before, or has been overtaken, is known to be lost.
  const bool counts = !message.replicas.empty() && table_.has(id.replica);
  const int64_t sent_by = message.since;
  if (!counts || sent_by < since_ || id.number <= newest_[from] || parts_.contains(id)) return;
  const auto waiting =
      std::ranges::count(parts_, id.replica, [](const auto& part) { return part.first.replica; });
  if (waiting >= kWaitingMax) return;
  if (parts_.empty()) opened_at_ = arrivals_;
  parts_[id] = {.payload = std::move(message.payload),
                .table = sent_by,
                .stretch = message.stretch,
                .bytes = message.payload_bytes};
}

void CommonOwner::expire() {
  if (parts_.empty()) return;
  expired_ = true;
  for (const ReplicaId replica : table_.members()) {
    const bool silent = heard_at_[static_cast<size_t>(replica.value)] < opened_at_;
    if (silent) absent_.add(replica);
  }
}

// From the beginning it knows where they are.
std::vector<ReplicaId> CommonOwner::unheard_of() const {
  std::vector<ReplicaId> unheard_of;
  if (since_ == 0 || !owns()) return unheard_of;
  for (const ReplicaId replica : table_.members()) {
    if (position(replica) == nullptr) unheard_of.push_back(replica);
  }
  return unheard_of;
}

const CommonOwner::Position* CommonOwner::position(ReplicaId replica) const {
  const Position& last = positions_[static_cast<size_t>(replica.value)];
  return last.table >= since_ ? &last : nullptr;
}

ReplicaSet CommonOwner::ended() const {
  ReplicaSet ended;
  for (const ReplicaId replica : table_.members()) {
    const Position* const last = position(replica);
    if (last != nullptr && last->ended) ended.add(replica);
  }
  return ended;
}

std::optional<std::pair<ReplicaId, int64_t>> CommonOwner::ahead(int64_t received) const {
  if (!owns() || since_ == 0 || !unheard_of().empty()) return std::nullopt;
  std::optional<std::pair<ReplicaId, int64_t>> most;
  for (const ReplicaId replica : table_.members()) {
    const int64_t have = positions_[static_cast<size_t>(replica.value)].have;
    if (have > (most ? most->second : received)) most = {replica, have};
  }
  return most;
}

bool CommonOwner::brings_up(int64_t received) const {
  return owns() && brought_up_ != since_ && unheard_of().empty() && !ahead(received);
}

std::vector<std::pair<ReplicaId, int64_t>> CommonOwner::behind(int64_t received) const {
  std::vector<std::pair<ReplicaId, int64_t>> behind;
  for (const ReplicaId replica : table_.members()) {
    const int64_t have = positions_[static_cast<size_t>(replica.value)].have;
    if (have < received && replica != replica_) behind.emplace_back(replica, have + 1);
  }
  return behind;
}

bool CommonOwner::closable(int64_t received) const {
  if (!owns() || !unheard_of().empty() || ahead(received)) return false;
  if (told_since_ != since_) return true;
  if (parts_.empty()) return end_is_due();
  if (expired_) return true;
  const int64_t oldest = oldest_number();
  const ReplicaSet ended = this->ended();
  return std::ranges::all_of(table_.members().members(), [&](ReplicaId replica) {
    if (ended.contains(replica) || (plan_.deadline && absent_.contains(replica))) return true;
    // With a fixed lag, numbers are those of updates. One that has been heard of later is not
    // waited for: it sent that one to the owner before.
    const Position* const last = position(replica);
    if (plan_.lag_backwards) return last != nullptr && last->number >= oldest;
    const auto own = parts_.lower_bound({replica, 0});
    return own != parts_.end() && own->first.replica == replica;
  });
}

int64_t CommonOwner::oldest_number() const {
  int64_t oldest = INT64_MAX;
  for (const auto& [id, part] : parts_) oldest = std::min(oldest, id.number);
  return oldest;
}

// With a fixed lag everybody contributes to every answer, once.
std::vector<PartId> CommonOwner::next_parts() const {
  std::vector<PartId> parts;
  if (told_since_ != since_) return parts;
  for (const auto& [id, part] : parts_) {
    if (!plan_.lag_backwards || id.number == oldest_number()) parts.push_back(id);
  }
  return parts;
}

bool CommonOwner::has(const std::vector<PartId>& parts) const {
  return std::ranges::all_of(parts, [&](const PartId& id) { return parts_.contains(id); });
}

std::vector<at::Tensor> CommonOwner::payloads(const std::vector<PartId>& parts) const {
  std::vector<at::Tensor> payloads;
  for (const PartId& id : parts) payloads.push_back(parts_.at(id).payload);
  return payloads;
}

int64_t CommonOwner::stretch(const std::vector<PartId>& parts) const {
  int64_t stretch = 1;
  for (const PartId& id : parts) stretch = std::max(stretch, parts_.at(id).stretch);
  return stretch;
}

int64_t CommonOwner::largest(const std::vector<PartId>& parts) const {
  int64_t bytes = 0;
  for (const PartId& id : parts) bytes = std::max(bytes, parts_.at(id).bytes);
  return bytes;
}

void CommonOwner::closed(const std::vector<PartId>& parts) {
  ReplicaSet contributors = ended();
  if (std::exchange(told_since_, since_) != since_) {
    awaited_ = expired_ = false;  // a deadline for the number that this answer took is void
    return;
  }
  end_is_told_ = parts.empty();
  for (const PartId& id : parts) {
    contributors.add(id.replica);
    int64_t& newest = newest_[static_cast<size_t>(id.replica.value)];
    newest = std::max(newest, id.number);
  }
  for (const ReplicaId replica : table_.members()) {
    missing_ += contributors.contains(replica) ? 0 : 1;
  }
  std::erase_if(parts_, [&](const auto& part) {
    return part.first.number <= newest_[static_cast<size_t>(part.first.replica.value)];
  });
  awaited_ = expired_ = false;
  opened_at_ = arrivals_;
}

}  // namespace leeway
