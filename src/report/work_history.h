// What the workers of a run did and when, as its event log tells it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/event.h"
#include "events/work.h"

namespace leeway {

struct TimeSpan {
  Nanos begin;
  Nanos end;
  Nanos length() const { return end - begin; }
  bool operator==(const TimeSpan&) const = default;
};

// Copies of weights that are on their way to an evaluation are part of it.
inline bool is_evaluation(const Work& work) {
  return work.kind == WorkKind::kEvaluate || work.lane == Lane::kEvaluation;
}

// As what a piece is counted and coloured.
inline WorkKind shown_kind(const Work& work) {
  return is_evaluation(work) ? WorkKind::kEvaluate : work.kind;
}

// "0 2 3"; "" for nobody.
std::string replicas_text(const ReplicaSet& replicas);

// All the work of one worker.
struct WorkerHistory {
  WorkerId worker;
  std::vector<WorkRecord> records;  // sitting by sitting, each in the order of beginnings
  // Where each sitting of the run begins in `records`; a sitting without work of this worker has
  // no entry.
  std::vector<size_t> sitting_begins;

  size_t sittings() const { return sitting_begins.size(); }
  std::span<const WorkRecord> sitting(size_t index) const;
};

struct WorkHistory {
  std::vector<WorkerHistory> lanes;  // ascending replica, then stage; never empty
  TimeSpan span;                     // from the first beginning to the last end
  int64_t first_update = 0;          // of the training that is recorded
  int64_t last_update = 0;           //
  std::vector<int64_t> flushes{};  // updates after which nothing was in flight: start, checkpoints
  bool cut = false;                // the log ended in half a line, which is left out

  size_t records() const;
  int64_t replicas() const;  // how many of them worked
  int64_t stages() const;
};

// Errors name the line where there is one.
Result<WorkHistory> read_work_history(const Path& run_folder);

// The same from events that are in memory; `name` is what errors call them.
Result<WorkHistory> work_history(std::vector<Event> events, const std::string& name);

}  // namespace leeway
