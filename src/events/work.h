// The one thing that a worker does next, and the record of it in the event log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "events/event.h"

namespace leeway {

enum class WorkKind : uint8_t { kForward, kBackward, kUpdate, kSave, kEvaluate };
inline constexpr int kWorkKinds = 5;
std::string_view work_kind_word(WorkKind kind);

struct Work {
  WorkKind kind = WorkKind::kForward;
  int64_t index = 0;    // forward, backward: microbatch; update, save: updates done after it;
                        // evaluate: batch of the validation data
  int64_t update = 0;   // the update it belongs to, counted from 1: what --resume counts by
  int64_t version = 0;  // updates that the weights it uses have had
  int64_t delay = 0;    // updates between those weights and the ones that the gradient meets
  bool operator==(const Work&) const = default;
};

// When a driver began and ended a piece of work, by its own clock.
struct WorkTimes {
  Nanos begin;
  Nanos end;
};

struct WorkRecord {
  WorkerId worker;
  Work work;
  WorkTimes times;
  int64_t bytes_sent = 0;
};

// {"event":"work","kind":"forward","replica":0,"stage":1,"microbatch":12,"update":4,"version":2,
//  "delay":1,"begin":1200,"end":3400,"bytes":65536}
// Times in nanoseconds since the run began. Updates and saves have no microbatch, evaluations have
// "batch" in its place.
inline constexpr std::string_view kWorkEvent = "work";
Event to_event(const WorkRecord& record);
Result<WorkRecord> work_of(const Event& event);

}  // namespace leeway
