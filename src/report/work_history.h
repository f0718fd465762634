// What the workers of a run did and when, according to its event log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/event.h"
#include "events/traffic.h"
#include "events/work.h"

namespace leeway {

struct TimeSpan {
  Nanos begin;
  Nanos end;
  Nanos length() const { return end - begin; }
  bool operator==(const TimeSpan&) const = default;
};

// The kind a piece is counted and coloured as.
inline WorkKind shown_kind(const Work& work) {
  return is_evaluation(work) ? WorkKind::kEvaluate : work.kind;
}

// "0 2 3"; "" if empty.
std::string replicas_text(const ReplicaSet& replicas);

// All the work of one worker.
struct WorkerHistory {
  WorkerId worker;
  std::vector<WorkRecord> records;  // session by session, each sorted by begin
  // Where each session begins in `records`; a session without work by this worker has no entry.
  std::vector<size_t> session_begins;
  // The times in which the log has all that the worker did; none: it has everything.
  std::optional<std::vector<TimeSpan>> covered = {};

  size_t sessions() const { return session_begins.size(); }
  std::span<const WorkRecord> session(size_t index) const;
};

struct WorkHistory {
  std::vector<WorkerHistory> lanes;  // ascending replica, then stage; never empty
  TimeSpan span;                     // from the first begin to the last end
  int64_t first_update = 0;          // of the recorded training
  int64_t last_update = 0;           //
  int64_t made_by_all = 0;           // updates made by every worker
  int64_t made_by_any = 0;           // updates made by the worker furthest ahead
  std::vector<int64_t> flushes{};  // updates after which nothing was in flight: start, checkpoints
  bool partial = false;            // the log leaves out work by design

  size_t records() const;
  int64_t replicas() const;  // that have any work
  int64_t stages() const;
};

// Sums and differences of such numbers fit into 64 bits, and JavaScript represents them exactly.
inline constexpr int64_t kCountMax = int64_t{1} << 53;

// A piece of work with possible values: no number negative or too large, no time that runs
// backwards.
Result<WorkRecord> checked_work(const Event& event);

// Builds a history piece by piece. A piece once added is not removed: the caller leaves out work
// that a later session repeated.
class WorkHistoryBuilder {
 public:
  // A lane even if it has no piece.
  void add_worker(WorkerId worker, std::optional<std::vector<TimeSpan>> covered);
  // The sessions, or logged stretches, of a worker must come in order.
  void add(const WorkRecord& record, size_t session);
  void add_flush(int64_t update) { flushes_.insert(update); }
  bool empty() const { return lanes_.empty(); }
  // What the log has of each worker is the pieces added, from the first to the last of a session.
  void cover_only_sessions();
  WorkHistory finish() &&;  // must not be empty

 private:
  struct Updates {
    int64_t first = -1;  // none
    int64_t last = -1;
    void add(int64_t update);
  };
  struct Lane {
    WorkerHistory history;
    size_t last_session = 0;
    int64_t updates = 0;  // made
  };

  std::map<WorkerId, Lane> lanes_;
  std::set<int64_t> flushes_ = {0};
  TimeSpan span_;
  Updates all_;
  Updates own_;  // without work for rounds
};

// What to say of a log with ticks.
inline constexpr std::string_view kOneOfSeveral =
    "this is the log of one of the run's processes, without the work of the others; `leeway merge` "
    "puts their logs together";

// An error if the folder was not written by `leeway train`, or not by the coordinator's process.
Status check_is_run(const Path& folder);

}  // namespace leeway
