// The one thing that a worker does next, and the record of it in the event log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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
  kReduce,      // an owner makes the mean of a chunk and answers everybody
  kMerge,       // a mean becomes part of the weights (allreduce: of the gradients)
  kAwait,       // an owner asks to be told when a chunk's deadline has come
  kRepeat,      // an owner sends an answer again to who has missed it
};
inline constexpr int kWorkKinds = 10;
std::string_view work_kind_word(WorkKind kind);

// What a round is for. Rounds are counted in each lane for itself.
enum class Lane : uint8_t {
  kMain,        // the averaging method
  kRepair,      // of lowbit: weights, seldom and sparsely
  kEvaluation,  // copies for validation; a round is an update
};
inline constexpr int kLanes = 3;
std::string_view lane_word(Lane lane);

struct Work {
  WorkKind kind = WorkKind::kForward;
  int64_t index = 0;    // forward, backward: microbatch; update, save: updates done after it;
                        // evaluate: batch of the validation data; the others: round
  int64_t update = 0;   // the update it belongs to, counted from 1: what --resume counts by
  int64_t version = 0;  // updates that the weights it uses have had
  int64_t delay = 0;    // updates between those weights and the ones that the gradient meets;
                        // merge: the lag, updates since this worker's part was sent
  // Of rounds alone:
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  ReplicaSet replicas = {};  // contribute: this one, or nobody if its weight is zero; reduce: those
                             // in the mean; repeat: who asked
  bool operator==(const Work&) const = default;
};

inline bool is_of_round(WorkKind kind) { return kind >= WorkKind::kContribute; }

// When a driver began and ended a piece of work, by its own clock.
struct WorkTimes {
  Nanos begin;
  Nanos end;
};

// How far apart replicas are and what a merge does about it: sums of squares over `count`
// coordinates.
struct RoundNorms {
  int64_t count = 0;
  double drift = 0;       // merge: of own steps since the part was sent
  double correction = 0;  // merge: of what it has changed
  double spread = 0;      // reduce: of the replicas' distance from their mean, a mean over them
  double scale = 0;       // reduce: of that mean itself
  bool operator==(const RoundNorms&) const = default;
};

struct WorkRecord {
  WorkerId worker;
  Work work;
  WorkTimes times;
  int64_t bytes_sent = 0;
  std::optional<RoundNorms> norms = {};  // of reduces and merges with arithmetic
};

// {"event":"work","kind":"forward","replica":0,"stage":1,"microbatch":12,"update":4,"version":2,
//  "delay":1,"begin":1200,"end":3400,"bytes":65536}
// Times in nanoseconds since the run began. Updates and saves have no microbatch, evaluations have
// "batch" in its place, and pieces of a round "round", "lane", "chunk", "replicas":"0 2 3",
// and with arithmetic "drift", "correction", "spread" and "scale" as root mean squares.
inline constexpr std::string_view kWorkEvent = "work";
Event to_event(const WorkRecord& record);
Result<WorkRecord> work_of(const Event& event);

}  // namespace leeway
