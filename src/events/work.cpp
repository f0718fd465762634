#include "events/work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "base/check.h"

namespace leeway {
namespace {

constexpr std::array<std::string_view, kWorkKinds> kKindWords = {
    "forward", "backward", "update", "save",  "evaluate", "contribute", "reduce",
    "merge",   "await",    "repeat", "adopt", "transfer", "report"};
constexpr std::array<std::string_view, kLanes> kLaneWords = {"main", "evaluation"};

// What the index counts; empty: only the update.
std::string_view index_word(WorkKind kind) {
  switch (kind) {
    case WorkKind::kForward:
    case WorkKind::kBackward:
      return "microbatch";
    case WorkKind::kEvaluate:
      return "batch";
    case WorkKind::kUpdate:
    case WorkKind::kSave:
    case WorkKind::kReport:
      return "";
    case WorkKind::kAdopt:
      return "table";
    case WorkKind::kTransfer:
      return "part";
    case WorkKind::kContribute:
    case WorkKind::kReduce:
    case WorkKind::kMerge:
    case WorkKind::kAwait:
    case WorkKind::kRepeat:
      return "round";
  }
  LEEWAY_UNREACHABLE("unknown kind of work");
}

bool has_replicas(WorkKind kind) { return is_of_round(kind) || kind == WorkKind::kAdopt; }

// The enumerator of a word in a list.
template <class Enum, size_t kCount>
std::optional<Enum> enum_of(const std::array<std::string_view, kCount>& words,
                            std::string_view word) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Takes a number that is not negative off the front of the text.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::string text_of(const std::vector<PartId>& parts) {
  std::string text;
  for (const PartId& part : parts) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", part.replica.value, part.number);
  }
  return text;
}

std::optional<std::vector<PartId>> parts_of(std::string_view text) {
  std::vector<PartId> parts;
  while (!text.empty()) {
    const auto replica = take_number(text);
    if (!replica || *replica >= ReplicaSet::kReplicasMax || !text.starts_with(':')) return {};
    text.remove_prefix(1);
    const auto number = take_number(text);
    if (!number) return {};
    parts.push_back({{*replica}, *number});
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return parts;
}

std::optional<std::vector<int64_t>> numbers_of(std::string_view text) {
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number) return {};
    numbers.push_back(*number);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return numbers;
}

}  // namespace

std::string text_of(const ReplicaSet& replicas) {
  std::string text;
  for (const ReplicaId replica : replicas.members()) {
    if (!text.empty()) text += ' ';
    text += std::to_string(replica.value);
  }
  return text;
}

std::optional<ReplicaSet> replicas_of(std::string_view text) {
  ReplicaSet replicas;
  while (!text.empty()) {
    const auto value = take_number(text);
    if (!value || *value >= ReplicaSet::kReplicasMax) return {};
    replicas.add({*value});
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return replicas;
}

std::string_view work_kind_word(WorkKind kind) { return kKindWords[static_cast<size_t>(kind)]; }
std::string_view lane_word(Lane lane) { return kLaneWords[static_cast<size_t>(lane)]; }

Event to_event(const WorkRecord& record) {
  const Work& work = record.work;
  Event event(kWorkEvent);
  event.add("kind", work_kind_word(work.kind))
      .add("replica", record.worker.replica.value)
      .add("stage", record.worker.stage.value);
  if (!index_word(work.kind).empty()) event.add(index_word(work.kind), work.index);
  if (is_of_round(work.kind)) {
    event.add("lane", lane_word(work.lane)).add("chunk", work.chunk);
  }
  if (has_replicas(work.kind)) event.add("replicas", text_of(work.replicas));
  if (!work.parts.empty()) event.add("parts", text_of(work.parts));
  if (!work.have.empty()) event.add("have", fmt::format("{}", fmt::join(work.have, " ")));
  if (work.whole) event.add("whole", true);
  if (work.position > 0) event.add("position", work.position).add("positions", work.positions);
  event.add("update", work.update)
      .add("version", work.version)
      .add("delay", work.delay)
      .add("begin", record.times.begin.count)
      .add("end", record.times.end.count)
      .add("bytes", record.bytes_sent);
  if (record.norms) {
    const auto root_mean = [&](double sum) {
      return std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, record.norms->count)));
    };
    if (work.kind == WorkKind::kReduce) {
      event.add("spread", root_mean(record.norms->spread));
      event.add("scale", root_mean(record.norms->scale));
    } else {
      event.add("drift", root_mean(record.norms->drift));
      event.add("correction", root_mean(record.norms->correction));
    }
  }
  return event;
}

Result<WorkRecord> work_of(const Event& event) {
  const std::optional<WorkKind> found_kind =
      enum_of<WorkKind>(kKindWords, event.text("kind").value_or(""));
  if (event.kind() != kWorkEvent || !found_kind) {
    return Error{"not a kind of work that this version knows"};
  }
  const WorkKind kind = found_kind.value();
  WorkRecord record;
  record.work.kind = kind;
  std::string_view missing;
  const auto read = [&](std::string_view name, int64_t& value) {
    const auto found = event.integer(name);
    if (!found) missing = name;
    value = found.value_or(0);
  };
  read("replica", record.worker.replica.value);
  read("stage", record.worker.stage.value);
  read("update", record.work.update);
  read("version", record.work.version);
  read("delay", record.work.delay);
  read("begin", record.times.begin.count);
  read("end", record.times.end.count);
  read("bytes", record.bytes_sent);
  record.work.index = record.work.update;
  if (!index_word(kind).empty()) read(index_word(kind), record.work.index);
  if (is_of_round(kind)) {
    // Earlier versions had background rounds of their own.
    const std::string word = event.text("lane").value_or("");
    const auto lane = enum_of<Lane>(kLaneWords, word == "repair" ? "main" : word);
    if (!lane) return Error{"a piece of a round has no valid \"lane\""};
    record.work.lane = *lane;
    read("chunk", record.work.chunk);
  }
  if (has_replicas(kind)) {
    const auto replicas = replicas_of(event.text("replicas").value_or("?"));
    if (!replicas) return Error{"a piece of work has no valid \"replicas\""};
    record.work.replicas = *replicas;
  }
  if (const auto text = event.text("parts")) {
    const auto parts = parts_of(*text);
    if (!parts) return Error{"a piece of work has no valid \"parts\""};
    record.work.parts = *parts;
  }
  if (const auto text = event.text("have")) {
    const auto have = numbers_of(*text);
    if (!have) return Error{"a piece of work has no valid \"have\""};
    record.work.have = *have;
  }
  if (event.find("position") != nullptr) {
    read("position", record.work.position);
    read("positions", record.work.positions);
    const bool inside = record.work.position > 0 && record.work.position < record.work.positions;
    if (!inside) return Error{"a piece of work has no valid \"position\""};
  }
  const Event::Value* const whole = event.find("whole");
  record.work.whole = whole != nullptr && *whole == Event::Value(true);
  if (!missing.empty()) return Error{"a piece of work has no \"" + std::string(missing) + "\""};
  return record;
}

}  // namespace leeway
