#include "events/work.h"

#include <array>

#include "base/check.h"

namespace leeway {
namespace {

constexpr std::array<std::string_view, kWorkKinds> kKindWords = {"forward", "backward", "update",
                                                                 "save", "evaluate"};

// What the index counts; empty: nothing beside the update.
std::string_view index_word(WorkKind kind) {
  switch (kind) {
    case WorkKind::kForward:
    case WorkKind::kBackward:
      return "microbatch";
    case WorkKind::kEvaluate:
      return "batch";
    case WorkKind::kUpdate:
    case WorkKind::kSave:
      return "";
  }
  LEEWAY_UNREACHABLE("all kinds of work are above");
}

std::optional<WorkKind> kind_of(std::string_view word) {
  for (size_t i = 0; i < kKindWords.size(); ++i) {
    if (kKindWords[i] == word) return static_cast<WorkKind>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view work_kind_word(WorkKind kind) { return kKindWords[static_cast<size_t>(kind)]; }

Event to_event(const WorkRecord& record) {
  const Work& work = record.work;
  Event event(kWorkEvent);
  event.add("kind", work_kind_word(work.kind))
      .add("replica", record.worker.replica.value)
      .add("stage", record.worker.stage.value);
  if (!index_word(work.kind).empty()) event.add(index_word(work.kind), work.index);
  event.add("update", work.update)
      .add("version", work.version)
      .add("delay", work.delay)
      .add("begin", record.times.begin.count)
      .add("end", record.times.end.count)
      .add("bytes", record.bytes_sent);
  return event;
}

Result<WorkRecord> work_of(const Event& event) {
  const std::optional<WorkKind> found_kind = kind_of(event.text("kind").value_or(""));
  if (event.kind() != kWorkEvent || !found_kind) {
    return Error{"not a piece of work of this version"};
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
  if (!missing.empty()) return Error{"a piece of work has no \"" + std::string(missing) + "\""};
  return record;
}

}  // namespace leeway
