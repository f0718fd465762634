// What a worker tells the coordinator: plain data, numbered in the order it happened.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/chunk_position.h"
#include "base/result.h"
#include "compute/stage_reports.h"
#include "worker/membership.h"
#include "worker/work_tally.h"

namespace leeway {

struct UpdateDone {
  int64_t update = 0;                     // updates done, this one included
  std::optional<StageUpdate> stage = {};  // none: a worker without compute
  WorkTally tally = {};                   // up to this update
};

// A flush point that stage 0 of a replica has decided on.
struct FlushNamed {
  bool ends = false;    // the session ends there; false: a checkpoint is saved there
  int64_t update = 0;   // 0: no flush point is needed
  bool for_all = true;  // it was asked for one that no replica can have passed
};

// Parts of rounds, summed over a session.
struct RoundCounts {
  int64_t late = 0;         // parts from others that came after their chunk was closed
  int64_t missing = 0;      // parts that a mean had to do without
  int64_t missed = 0;       // answers that this worker never merged
  int64_t dropped = 0;      // rounds that a flush point cut off
  int64_t differed = 0;     // chunks of a common model that another replica had to take anew
  int64_t written_off = 0;  // chunks of it of which something was lost with their owner
};

// What became of a state that a worker has saved: a shard of a checkpoint, or why there is none.
struct ShardSaved {
  WorkerId worker;
  int64_t update = 0;
  int64_t checkpoint = 0;  // as in StageState
  bool last = false;
  std::vector<int64_t> rounds = {};
  std::vector<ChunkPosition> chunks = {};  // as in StageState
  uint64_t model_hash = 0;                 // likewise
  PurposeBytes bytes = {};
  // On disk, in the store of the worker's process:
  std::string file = {};
  uint64_t size = 0;
  uint64_t hash = 0;
  std::string error = {};  // why it is not; empty: it is
  bool again = false;      // it is tried again
  bool replaced = false;   // the disk was too slow: another one of this worker is written

  bool stored() const { return error.empty(); }
};

// Nothing is left to do in this session, unless its replica restarts.
struct Finished {
  int64_t epoch = 0;  // of its replica, when it said so
  int64_t updates = 0;
  int64_t parameters = 0;  // of this stage
  int64_t versions_peak = 0;
  int64_t version_bytes = 0;
  uint64_t model_hash = 0;  // of what all replicas share, if they do: as in StageState
  uint64_t model_at = 0;    // and a hash of where that is
  RoundCounts rounds = {};
  WorkTally tally = {};
};

// Where a worker is: for a coordinator that begins in the middle of a run, when a worker that has
// finished has done something for others, and when it wants to join, or can go on.
struct Present {
  int64_t updates = 0;
  int64_t begun = 0;    // that it has begun, this one included
  bool joins = false;   // it is not part of the run, and
  bool loaded = false;  // has the state that it needs to be
  bool done = false;
  Membership table;
  int64_t ends = 0;  // where it stops; 0: that is not decided
  WorkTally tally = {};
};

using Report = std::variant<UpdateDone, StageEvaluation, ShardSaved, FlushNamed, Finished, Present>;

// The numbers that come with a report; null: none.
const WorkTally* tally_in(const Report& report);

void write_report(ByteWriter& to, const Report& report);
Result<Report> read_report(ByteReader& from);
void write_membership(ByteWriter& to, const Membership& table);
Result<Membership> read_membership(ByteReader& from);
// Where the chunks of a common model are; and what is counted in one of them.
void write_positions(ByteWriter& to, const std::vector<ChunkPosition>& chunks);
Result<std::vector<ChunkPosition>> read_positions(ByteReader& from);
Result<std::vector<CountedParts>> read_counted(ByteReader& from, int64_t count);
// A tensor with its type and shape.
void write_tensor(ByteWriter& to, const at::Tensor& tensor);
Result<at::Tensor> read_tensor(ByteReader& from);

}  // namespace leeway
