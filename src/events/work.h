// A piece of work: what a worker does next, and its record in the event log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/chunk_position.h"
#include "base/ids.h"
#include "base/replica_set.h"
#include "base/result.h"
#include "base/time.h"
#include "events/event.h"

namespace leeway {

enum class WorkKind : uint8_t {
  kForward,
  kBackward,
  kUpdate,
  kSave,
  kEvaluate,
  kContribute,  // sends this worker's part of a round
  kReduce,      // an owner computes the mean of a chunk and answers all members
  kMerge,       // merges a mean into the weights (allreduce: into the gradients)
  kAwait,       // an owner asks to be woken at a chunk's deadline
  kRepeat,      // an owner repeats an answer for a replica that missed it
  kAdopt,       // goes by a new table of members from now on
  kTransfer,    // sends a part of its state to one that joins; there: asks for it, or takes it over
  kReport,      // tells the coordinator, or another stage, what it waits to hear; not logged
};
inline constexpr int kWorkKinds = 13;
std::string_view work_kind_word(WorkKind kind);

// What a round is for. Each lane counts its own rounds.
enum class Lane : uint8_t {
  kMain,        // the averaging method
  kEvaluation,  // copies for validation; a round is an update
};
inline constexpr int kLanes = 2;
std::string_view lane_word(Lane lane);

struct Work {
  WorkKind kind = WorkKind::kForward;
  int64_t index = 0;    // forward, backward: microbatch; update, save: updates done after it;
                        // evaluate: batch of the validation data; adopt: number of the table;
                        // transfer: part of the state;
                        // report: evaluations up to this update are given up, -1: none;
                        // the others: round; of a common model, contribute: own number; reduce,
                        // merge, repeat: number of the answer
  int64_t update = 0;   // the update it belongs to, counted from 1, as for --resume
  int64_t version = 0;  // number of updates in the weights it uses
  int64_t delay = 0;    // updates between those weights and the ones that the gradient updates;
                        // merge: whole updates since this worker's part was sent
  // A merge inside an update comes after `position` of its `positions` backwards. 0: at its end.
  int64_t position = 0;
  int64_t positions = 1;
  // Only for rounds:
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  ReplicaSet replicas = {};  // contribute: this one, or none if its weight is zero; reduce: those
                             // in the mean; repeat: those that asked; adopt: the members
  // Only for a common model:
  std::vector<PartId> parts = {};  // reduce: what is in the answer, ascending
  std::vector<int64_t> have = {};  // adopt: answers of each chunk that the worker has by then
  bool whole = false;              // merge: the chunk as this answer made it
  bool operator==(const Work&) const = default;
};

// Of a merge: updates since this worker's part was sent, in fractions; 0: it has sent none.
inline double lag_of(const Work& merge) {
  if (merge.replicas.empty()) return 0;
  return static_cast<double>(merge.delay) +
         static_cast<double>(merge.position) / static_cast<double>(merge.positions);
}

inline bool is_of_round(WorkKind kind) {
  return kind >= WorkKind::kContribute && kind <= WorkKind::kRepeat;
}

// When a driver started and finished a piece of work, by its own clock.
struct WorkTimes {
  Nanos begin;
  Nanos end;
};

// How far apart replicas are and what a merge does about it: sums of squares over `count`
// coordinates.
struct RoundNorms {
  int64_t count = 0;
  double drift = 0;       // merge: own steps since the part was sent
  double correction = 0;  // merge: what the merge changed
  double spread = 0;      // reduce: distance of the replicas from their mean, averaged over them
  double scale = 0;       // reduce: that mean itself
  bool operator==(const RoundNorms&) const = default;
};

struct WorkRecord {
  WorkerId worker;
  Work work;
  WorkTimes times;
  int64_t bytes_sent = 0;
  std::optional<RoundNorms> norms = {};  // only for reduces and merges with arithmetic
};

// {"event":"work","kind":"forward","replica":0,"stage":1,"microbatch":12,"update":4,"version":2,
//  "delay":1,"begin":1200,"end":3400,"bytes":65536}
// Times are in nanoseconds since the run started. Updates and saves have no microbatch; evaluations
// have "batch" instead; pieces of a round have "round", "lane", "chunk", "replicas":"0 2 3" and,
// with arithmetic, "drift", "correction", "spread" and "scale" as root mean squares; merges inside
// an update "position" and "positions"; with a common model "parts":"0:12 1:11", "have":"41 40"
// where a table is adopted, and "whole":true where one takes the chunk as it is.
inline constexpr std::string_view kWorkEvent = "work";
// Replicas as a log names them: "0 2 3".
std::string text_of(const ReplicaSet& replicas);
std::optional<ReplicaSet> replicas_of(std::string_view text);
Event to_event(const WorkRecord& record);
Result<WorkRecord> work_of(const Event& event);

}  // namespace leeway
