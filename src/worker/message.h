// What workers and the coordinator send each other: plain data that can be serialized. A driver
// carries messages and never looks inside.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "events/work.h"
#include "worker/ask.h"
#include "worker/report.h"
#include "worker/run_plan.h"

namespace leeway {

enum class MessageKind : uint8_t {
  // Within a replica:
  kActivation,  // microbatch `index`, to the next stage; `update`: the last requested save that
                // comes before it, 0: none
  kGradient,    // of microbatch `index`, to the previous stage
  kNorms,       // squared gradient norms of update `index`, to stage 0 (synchronous schedules)
  kTotalNorm,   // the whole model's squared gradient norm for update `index`, from stage 0
  kEvaluation,  // activations of validation batch `index` of update `update`, to the next stage,
                // through the mean of `replicas`; `index` past the last batch: evaluations up to
                // that update are given up
  kEvaluated,   // batch `index` of update `update` is done, from the last stage to stage 0
  kGaveUp,      // evaluations up to update `index` cannot be made at the sender, to stage 0
  kFlushAt,     // from stage 0: the session ends with update `index`
  kSaveAt,      // from stage 0: save after update `index`, for the checkpoint of update `update`
  // Between the replicas of a stage:
  kContribution,  // chunk `chunk` of round `index`, to its owner; without a payload: weight zero;
                  // to a common model: `index` is its sender's own number
  kAnswer,        // the mean of that chunk over `replicas`, from its owner to all replicas; of a
                  // common model: `index` is the answer's number
  kAskAgain,      // of a common model: the answers from number `index` on have not arrived
  kAskState,      // from one that joins: part `chunk` of your state of update `update`; 0: any
  kState,  // that part, of `index`, with a hash before it; `report`: what it is, a ShardSaved
  // From the driver, when the time that a worker asked for has passed:
  kDeadline,  // stop waiting for parts of that chunk
  kRemind,    // say again that this worker is done, or that it wants to join
  // From the driver, when it has written what a worker saved, or given that up:
  kStored,  // what became of the state of update `index`, as a report of its sender
  // From the coordinator:
  kNameEnd,    // to stage 0: name an update to end with, that no replica can have passed
  kEndAt,      // to all: the session ends with update `index`, or at the first flush after it
  kNameSave,   // to stage 0: name an update to save after; `index`: the question's number
  kSaveBy,     // to stage 0 of the other replicas: another one saves after update `index`
  kTable,      // `table` has the members from now on; `index`: the newest update of any
  kHeard,      // reports up to number `index` are recorded
  kTellAgain,  // send every report after number `index` again, and who you are; `update` 1: also
               // what you have saved, and how you finished: this coordinator knows nothing
  kOver,       // the session has ended: leave; `index`: 0 all is done, 1 it was abandoned
  // To the coordinator:
  kReport,  // number `index` of its sender, who keeps number `update` before it; 0: none
  kAsk,     // from the driver: the user wants what `index` says, an Ask
  kLost,    // from the driver: the worker `from` is gone
  kTick,    // from the driver: the time that the coordinator asked for has passed
};
inline constexpr int kMessageKinds = 29;

// Messages of one class, on one link, arrive in the order they were sent. Classes may overtake each
// other: nothing may depend on it.
enum class TrafficClass : uint8_t { kControl, kPipeline, kAveraging };
inline constexpr int kTrafficClasses = 3;
TrafficClass class_of(MessageKind kind);
// From the driver, when the time that the receiver asked for has passed.
bool is_reminder(MessageKind kind);
// From the receiver's own driver: nobody else may say it.
bool is_of_driver(MessageKind kind);

// Every message says who sent it, and what its sender knows about the run.
struct Envelope {
  uint64_t run = 0;         // this run, and
  uint64_t recipe = 0;      // this recipe: anything else is not for us
  int64_t table = 0;        // number of the sender's table of members
  int64_t incarnation = 0;  // of the sender
  int64_t epoch = 0;        // of the sender's replica
  int64_t ends = 0;         // the user wants to stop: the update that was named for all; 0: none
  int64_t saves = 0;        // the newest checkpoint that the user asked for, likewise
  int64_t tick = 0;         // between processes: of the sender's journal when it was sent
  bool operator==(const Envelope&) const = default;
};

struct Message {
  MessageKind kind = MessageKind::kActivation;
  WorkerId from;
  WorkerId to;
  int64_t index = 0;
  int64_t update = 0;
  at::Tensor payload = {};                 // undefined: none, or a simulation without compute
  std::shared_ptr<c10::Event> ready = {};  // in a process: when a GPU has computed the payload
  int64_t payload_bytes = 0;               // set even where the payload itself is left out
  // Only for rounds:
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  ReplicaSet replicas = {};  // contribution: its sender, or empty; answer: those in the mean, and
                             // so in an evaluation
  Nanos update_time = {};    // contribution: between its sender's updates; zero: not known
  int64_t stretch = 1;       // guard's factor on the interval; contribution: that its sender wants;
                             // answer: the largest among those in the mean
  // Only for a common model:
  std::vector<PartId> parts = {};  // answer: what is in it, ascending
  ReplicaSet ended =
      {};               // contribution: its sender, if it is its last; answer: whose last are in it
  int64_t have = 0;     // contribution: answers of the chunk that its sender has, without gaps
  int64_t chained = 0;  // contribution: answers that its sender has applied, and
  uint64_t chain = 0;   // a hash of them; answer, the whole chunk: of those that are in it
  int64_t since = 0;    // answer: the table by which its owner took over
  bool again = false;   // answer: it was asked for
  bool whole = false;   // answer: the chunk as it is after that answer, for one that is far behind
  bool mends = false;   // the whole chunk: for one whose own is different
  std::vector<CountedParts> counted = {};  // the whole chunk: contributions that are in it
  Envelope envelope = {};
  std::shared_ptr<const Report> report = {};     // kReport, kStored, kState
  std::shared_ptr<const Membership> table = {};  // kTable
};

// About a piece of a round, to another worker of the same stage.
Message round_message(MessageKind kind, WorkerId from, ReplicaId to, const Work& work,
                      const at::Tensor& payload);

// For the coordinator: what the user of a run wants of it, and that a worker is gone.
Message ask_message(const RunPlan& plan, Ask wish);
Message lost_message(WorkerId worker, int64_t incarnation = 0);

// For links between processes: a fixed header, then payload, report or table. Every field read back
// is checked: a message from the network is untrusted input.
std::vector<std::byte> to_bytes(const Message& message);
Result<Message> from_bytes(std::span<const std::byte> bytes);

}  // namespace leeway
