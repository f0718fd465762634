// What the workers of a run did and when, as its event log tells it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
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

// As what a piece is counted and coloured.
inline WorkKind shown_kind(const Work& work) {
  return is_evaluation(work) ? WorkKind::kEvaluate : work.kind;
}

// "0 2 3"; "" for nobody.
std::string replicas_text(const ReplicaSet& replicas);

// All the work of one worker.
struct WorkerHistory {
  WorkerId worker;
  std::vector<WorkRecord> records;  // session by session, each in the order of beginnings
  // Where each session of the run begins in `records`; a session without work of this worker has
  // no entry.
  std::vector<size_t> session_begins;

  size_t sessions() const { return session_begins.size(); }
  std::span<const WorkRecord> session(size_t index) const;
};

struct WorkHistory {
  std::vector<WorkerHistory> lanes;  // ascending replica, then stage; never empty
  TimeSpan span;                     // from the first beginning to the last end
  int64_t first_update = 0;          // of the training that is recorded
  int64_t last_update = 0;           //
  int64_t made_by_all = 0;           // updates that every worker has made
  int64_t made_by_any = 0;           // and the one that is ahead
  std::vector<int64_t> flushes{};  // updates after which nothing was in flight: start, checkpoints
  bool cut = false;                // the log ended in half a line, which is left out

  size_t records() const;
  int64_t replicas() const;  // how many of them worked
  int64_t stages() const;
};

// A piece of work whose numbers can be: none below zero or beyond all bounds, no time that runs
// backwards.
Result<WorkRecord> checked_work(const Event& event);

// Work as it is told, piece by piece, to a history. A piece that is part of it already is not
// taken back: who adds leaves out what a later session did again.
class WorkHistoryBuilder {
 public:
  // Sessions are counted from 0 and come in order.
  void add(const WorkRecord& record, size_t session);
  void add_flush(int64_t update) { flushes_.insert(update); }
  bool empty() const { return lanes_.empty(); }
  WorkHistory finish() &&;  // of what is not empty

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
  Updates own_;  // of what is no work for a round
};

// The sentence for a folder that `leeway train` did not make.
Status check_is_run(const Path& folder);

// Errors name the line where there is one.
Result<WorkHistory> read_work_history(const Path& run_folder);

// The same from events that are in memory; `name` is what errors call them.
Result<WorkHistory> work_history(std::vector<Event> events, const std::string& name);

}  // namespace leeway
