#include "report/participation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "events/work.h"

namespace leeway {
namespace {

const ReplicaSet& everyone() {
  static const ReplicaSet all = ReplicaSet::first(ReplicaSet::kReplicasMax);
  return all;
}

// Joins it to the last one if nothing is between them.
void append(std::vector<UpdateRange>& ranges, const UpdateRange& range) {
  if (range.first > range.last) return;
  if (!ranges.empty() && ranges.back().last + 1 == range.first) {
    ranges.back().last = range.last;
  } else {
    ranges.push_back(range);
  }
}

bool always_there(const ReplicaUpdates& row, int64_t last) {
  return row.updates.size() == 1 && row.updates.front() == UpdateRange{1, last};
}

int64_t sound_count(int64_t replicas) {
  return std::clamp<int64_t>(replicas, 0, ReplicaSet::kReplicasMax);
}

}  // namespace

Participation::Participation(size_t changes_max)
    : changes_max_(std::max<size_t>(changes_max, 2)),
      changes_{{.after = 0, .members = everyone()}} {}

void Participation::note(const Event& event) {
  const std::string& kind = event.kind();
  if (kind == "update") updated(event);
  if (kind == "members") members(event);
  if (kind == "changed") changed(event);
  if (kind == "resumed") resumed(event.integer("update").value_or(-1));
}

// A session begins with all its replicas.
void Participation::resumed(int64_t update) {
  updates_name_members_ = false;
  if (update < 0) return;
  std::erase_if(changes_, [&](const Change& change) { return change.after >= update; });
  changes_.push_back({.after = update, .members = everyone()});
  tidy();
}

void Participation::changed(const Event& event) {
  constexpr std::string_view kReplicas = "mesh.replicas was ";
  const std::string change = event.text("change").value_or("");
  if (!change.starts_with(kReplicas)) return;
  int64_t before = 0;
  const char* text = change.data() + kReplicas.size();
  const auto [end, code] = std::from_chars(text, change.data() + change.size(), before);
  const int64_t update = event.integer("update").value_or(0);
  if (code == std::errc()) resizes_.push_back({.update = update, .before = sound_count(before)});
}

// A coordinator that was started again repeats a line: nothing changes then. A replica that comes
// back goes on after `from`, which the others may have passed or not reached yet.
void Participation::members(const Event& event) {
  const int64_t update = event.integer("update").value_or(-1);
  const auto named = replicas_of(event.text("replicas").value_or("?"));
  if (update < 0 || !named) return;
  const auto joined = event.integer("joined");
  for (const ReplicaId replica : everyone()) {
    if (!named->contains(replica)) {
      leaves(replica, update);
    } else if (!changes_.back().members.contains(replica)) {
      const int64_t from = event.integer("from").value_or(update);
      returns(replica, joined == replica.value ? from : update);
    }
  }
  tidy();
}

// Names the replicas that made it unless all did; lines of old versions name none.
void Participation::updated(const Event& event) {
  const int64_t update = event.integer("update").value_or(0);
  if (update < 1) return;
  const int64_t before = update - 1;
  const auto text = event.text("replicas");
  updates_name_members_ = updates_name_members_ || text.has_value();
  if (!updates_name_members_) return;
  const auto named = text ? replicas_of(*text) : everyone();
  if (!named || *named == changes_[place_of(before)].members) return;
  for (const ReplicaId replica : everyone()) {
    if (!named->contains(replica)) {
      if (changes_[place_of(before)].members.contains(replica)) leaves(replica, before);
    } else if (!changes_.back().members.contains(replica)) {
      returns(replica, before);
    }
  }
  tidy();
}

size_t Participation::place_of(int64_t after) const {
  const auto later = std::ranges::upper_bound(changes_, after, {}, &Change::after);
  return static_cast<size_t>(later - changes_.begin()) - 1;
}

// The place of a change at exactly this update.
size_t Participation::begin_at(int64_t after) {
  const size_t place = place_of(after);
  if (changes_[place].after == after) return place;
  const Change change = {.after = after, .members = changes_[place].members};
  changes_.insert(changes_.begin() + static_cast<std::ptrdiff_t>(place) + 1, change);
  return place + 1;
}

void Participation::leaves(ReplicaId replica, int64_t after) {
  const auto first = changes_.begin() + static_cast<std::ptrdiff_t>(place_of(after));
  const auto there = [&](const Change& change) { return change.members.contains(replica); };
  if (std::none_of(first, changes_.end(), there)) return;
  for (size_t i = begin_at(after); i < changes_.size(); ++i) changes_[i].members.remove(replica);
}

// Of a replica that is away; not before it left.
void Participation::returns(ReplicaId replica, int64_t after) {
  size_t left = changes_.size() - 1;
  while (left > 0 && !changes_[left - 1].members.contains(replica)) --left;
  after = std::max(after, changes_[left].after);
  for (size_t i = begin_at(after); i < changes_.size(); ++i) changes_[i].members.add(replica);
}

void Participation::tidy() {
  const auto same = [](const Change& a, const Change& b) { return a.members == b.members; };
  const auto join = [&] {
    changes_.erase(std::unique(changes_.begin(), changes_.end(), same), changes_.end());
  };
  join();
  while (changes_.size() > changes_max_) {
    size_t shortest = 1;
    const auto length = [&](size_t i) { return changes_[i + 1].after - changes_[i].after; };
    for (size_t i = 2; i + 1 < changes_.size(); ++i) {
      if (length(i) < length(shortest)) shortest = i;
    }
    left_out_ = std::max(left_out_, length(shortest));
    changes_.erase(changes_.begin() + static_cast<std::ptrdiff_t>(shortest));
    join();
  }
}

std::vector<ReplicaUpdates> Participation::up_to(int64_t last, int64_t replicas) const {
  std::vector<Resize> sizes = resizes_;
  sizes.push_back({.update = last, .before = sound_count(replicas)});
  const auto most = std::ranges::max_element(sizes, {}, &Resize::before);
  std::vector<ReplicaUpdates> rows;
  for (int64_t r = 0; r < most->before; ++r) rows.push_back({.replica = {r}});
  int64_t begin = 1;  // of the updates with one number of replicas
  for (const Resize& size : sizes) {
    const int64_t end = std::min(size.update, last);
    for (size_t i = 0; i < changes_.size() && changes_[i].after < last; ++i) {
      const int64_t until = i + 1 < changes_.size() ? changes_[i + 1].after : last;
      const UpdateRange range = {.first = std::max(changes_[i].after + 1, begin),
                                 .last = std::min(until, end)};
      for (int64_t r = 0; r < size.before; ++r) {
        if (changes_[i].members.contains({r})) append(rows[static_cast<size_t>(r)].updates, range);
      }
    }
    if (end == last) break;
    begin = std::max(begin, end + 1);
  }
  const bool all =
      std::ranges::all_of(rows, [&](const ReplicaUpdates& row) { return always_there(row, last); });
  return all || last < 1 ? std::vector<ReplicaUpdates>() : rows;
}

std::string text_of(const std::vector<UpdateRange>& ranges) {
  constexpr size_t kNamed = 6;
  if (ranges.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < std::min(ranges.size(), kNamed); ++i) {
    const auto [first, last] = ranges[i];
    if (i > 0) text += ", ";
    text += first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last);
  }
  if (ranges.size() > kNamed) text += fmt::format(" and {} more stretches", ranges.size() - kNamed);
  return text;
}

std::string text_of(const std::vector<ReplicaUpdates>& members) {
  constexpr size_t kNamed = 4;
  int64_t last = 0;  // the last update has at least one member
  for (const ReplicaUpdates& row : members) {
    if (!row.updates.empty()) last = std::max(last, row.updates.back().last);
  }
  std::string text;
  size_t away = 0;
  for (const ReplicaUpdates& row : members) {
    if (always_there(row, last) || ++away > kNamed) continue;
    text += text.empty() ? "" : "; ";
    text += row.updates.empty()
                ? fmt::format("replica {} took part in no update", row.replica.value)
                : fmt::format("replica {} took part in updates {}", row.replica.value,
                              text_of(row.updates));
  }
  if (away > kNamed) text += fmt::format("; {} more were away too", away - kNamed);
  return text;
}

nlohmann::ordered_json to_json(const std::vector<ReplicaUpdates>& members) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ReplicaUpdates& row : members) {
    nlohmann::ordered_json ranges = nlohmann::ordered_json::array();
    for (const auto& [first, last] : row.updates) {
      ranges.push_back(nlohmann::ordered_json::array({first, last}));
    }
    json.push_back({{"replica", row.replica.value}, {"updates", std::move(ranges)}});
  }
  return json;
}

}  // namespace leeway
