#include "fleet/places.h"

#include <algorithm>
#include <utility>

namespace leeway {

void Places::join(Member member, int64_t capacity) {
  const ProcessId id = member.id;
  seated_[id] = {.member = std::move(member), .capacity = capacity, .order = ++came_};
}

void Places::set_ready(ProcessId process) {
  const auto found = seated_.find(process);
  if (found != seated_.end()) found->second.ready = true;
}

bool Places::is_ready(ProcessId process) const {
  const auto found = seated_.find(process);
  return found != seated_.end() && found->second.ready;
}

const Member* Places::find(ProcessId process) const {
  const auto found = seated_.find(process);
  return found == seated_.end() ? nullptr : &found->second.member;
}

std::optional<ProcessId> Places::named(const std::string& name) const {
  for (const auto& [id, seated] : seated_) {
    if (seated.member.name == name) return id;
  }
  return std::nullopt;
}

std::vector<Place> Places::leave(ProcessId process) {
  const auto found = seated_.find(process);
  if (found == seated_.end()) return {};
  std::vector<Place> places = std::move(found->second.member.places);
  for (const Place& place : places) filled_[mesh_.index(place.worker)].reset();
  seated_.erase(found);
  renew();
  return places;
}

int64_t Places::empty() const {
  return std::ranges::count_if(filled_, [](const auto& process) { return !process; });
}

int64_t Places::missing() const {
  int64_t capacity = 0;
  for (const auto& [id, seated] : seated_) capacity += seated.ready ? seated.capacity : 0;
  return std::max<int64_t>(0, static_cast<int64_t>(mesh_.count()) - capacity);
}

std::vector<ProcessId> Places::known() const {
  std::vector<const Seated*> came;
  for (const auto& [id, seated] : seated_) came.push_back(&seated);
  std::ranges::sort(came, {}, &Seated::order);
  std::vector<ProcessId> ids;
  for (const Seated* seated : came) ids.push_back(seated->member.id);
  return ids;
}

std::vector<ProcessId> Places::ready() const {
  std::vector<ProcessId> ids = known();
  std::erase_if(ids, [this](ProcessId id) { return !seated_.at(id).ready; });
  return ids;
}

void Places::restore(Directory directory, std::vector<int64_t> times) {
  times_ = std::move(times);
  for (const Member& member : directory.members) {
    const auto capacity = std::ssize(member.places);
    seated_[member.id] = {.member = member, .capacity = capacity, .ready = true, .order = ++came_};
    for (const Place& place : member.places) filled_[mesh_.index(place.worker)] = member.id;
  }
  directory_ = std::move(directory);
  // A host in between may have made some that were not kept.
  constexpr int64_t kMadeMeanwhileMax = 1000;
  directory_.number += kMadeMeanwhileMax;
}

void Places::begin_session() {
  times_.assign(times_.size(), 0);
  for (auto& [id, seated] : seated_) {
    const std::vector<Place> before = std::exchange(seated.member.places, {});
    for (const Place& place : before) seat(seated, mesh_.index(place.worker));
  }
  for (const ProcessId id : ready()) {
    seat_where_empty(seated_.at(id));
  }
  // Who comes for one of these later is not the one that the session began without.
  for (size_t at = 0; at < filled_.size(); ++at) {
    if (!filled_[at]) times_[at] = 1;
  }
  renew();
}

std::vector<Place> Places::fill(ProcessId process) {
  const auto found = seated_.find(process);
  if (found == seated_.end()) return {};
  Seated& seated = found->second;
  // A process makes its workers once in a session.
  if (!seated.ready || !seated.member.places.empty()) return {};
  seat_where_empty(seated);
  if (!seated.member.places.empty()) renew();
  return seated.member.places;
}

bool Places::turn_around(ProcessId from, ProcessId to) {
  const Member* const member = find(from);
  const std::pair turned = {to, from};
  const bool tried = std::ranges::count(directory_.turned, std::pair(from, to)) > 0 ||
                     std::ranges::count(directory_.turned, turned) > 0;
  if (member == nullptr || member->address.empty() || tried) return false;
  directory_.turned.push_back(turned);
  ++directory_.number;
  return true;
}

void Places::seat_where_empty(Seated& seated) {
  for (size_t at = 0; at < filled_.size(); ++at) {
    const bool has_room = std::ssize(seated.member.places) < seated.capacity;
    if (has_room && !filled_[at]) seat(seated, at);
  }
}

void Places::seat(Seated& seated, size_t at) {
  filled_[at] = seated.member.id;
  seated.member.places.push_back({.worker = mesh_.id(at), .incarnation = times_[at]++});
}

void Places::renew() {
  ++directory_.number;
  directory_.members.clear();
  for (const auto& [id, seated] : seated_) {
    if (!seated.member.places.empty()) directory_.members.push_back(seated.member);
  }
  std::erase_if(directory_.turned, [this](const auto& pair) {
    return !seated_.contains(pair.first) || !seated_.contains(pair.second);
  });
}

}  // namespace leeway
