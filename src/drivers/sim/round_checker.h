// Watches rounds from outside and keeps its own record of who sent what, who received what, and
// what was made of it. Returns an empty string if all is well, otherwise what the method forbids.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/replica_set.h"
#include "base/time.h"
#include "drivers/sim/mesh.h"
#include "drivers/sim/round_window.h"
#include "events/work.h"
#include "worker/message.h"
#include "worker/run_plan.h"

namespace leeway::sim {

class RoundChecker {
 public:
  RoundChecker(const Mesh& mesh, const RunPlan& plan);

  // The worker's own counts, as the checker has them, before this piece of work.
  struct Moment {
    int64_t updates = 0;
    int64_t backwards = 0;
    bool update_due = false;
    Nanos now = {};
  };
  // Checks that contributions (in ascending rounds) and merges (each chunk once) happen only at the
  // boundary of an update; that a merge uses an answer that has arrived, with the planned lag, and
  // not of a round that should have been given up; that only the owner makes a mean, once, of parts
  // it has received, and that it never lets a deadline pass while it does other work.
  std::string began(size_t worker, const Work& work, const Moment& moment);

  // A merge of a common model: `lag` is that of the newest of the worker's own that is in it, and
  // `waits` says that nobody goes on without the others. Checks that the lag is the planned one.
  std::string merged_after(size_t worker, const Work& work, const Moment& moment,
                           std::optional<int64_t> lag, bool waits);

  // A table that the coordinator has sent.
  void know(const Membership& table) { tables_.try_emplace(table.number(), table); }
  // The worker's replica goes on after this update, with nothing in flight.
  void restarted(size_t worker, int64_t update);

  // Checks that an owner asks for the planned deadline, or a longer one where that is the plan.
  std::string asked_for(const Message& deadline, Nanos after, Nanos now);

  // Checks that a chunk has one answer, from its owner, with one set of contributors.
  std::string received(const Message& message, Nanos now);

 private:
  using ChunkId = std::pair<int64_t, int64_t>;              // round and chunk
  using ChunkBits = std::bitset<ReplicaSet::kReplicasMax>;  // a chunk per replica at most
  // A chunk may have a new owner after a change of members, and each has its own answer. One that
  // has restarted is another owner.
  struct Chunk {
    int64_t chunk = 0;
    ReplicaId owner;
    int64_t epoch = 0;
    ReplicaSet parts;  // replicas whose weighted part the owner has
    Nanos first_part_at;
    std::optional<Nanos> open_until = {};    // the deadline that its owner asked for
    std::optional<ReplicaSet> mean_of = {};  // set once the mean is made
  };
  using Chunks = std::vector<Chunk>;  // of one round, ascending
  // What one worker did in one round.
  struct Page {
    int64_t sent_at = -1;  // backwards by which it sent its weighted part; -1: it has not
    ChunkBits arrived;     // answers
    ChunkBits merged;
  };
  // What one worker did in one lane.
  struct Diary {
    int64_t last_round = -1;
    RoundWindow<Page> pages;
    std::vector<ChunkId> open;     // ascending: chunks it owns and has not closed
    std::set<ChunkId> given_away;  // by a table: open no more, whoever owns them later
    int64_t unsure_until = -1;     // rounds that it had begun when it last adopted a table
    int64_t newest_mean = -1;      // round
  };
  struct Seat {
    bool at_boundary = true;  // a session begins at a boundary
    bool inside = false;      // after a backward that does not complete an update
    bool flushes = false;     // it merged rounds before their lag, so it must save or end here
    Membership table;         // that it goes by
    int64_t given_up = -1;    // evaluations up to this update
    std::array<Diary, kLanes> diaries;
  };
  const LanePlan* plan_of(Lane lane) const;
  const Membership& sender_table(const Message& message) const;
  bool may_own(const LanePlan& plan, ReplicaId replica, const ChunkId& id) const;
  Chunk& chunk_of(WorkerId owner, Lane lane, const ChunkId& id, int64_t epoch);
  int64_t epoch_of(WorkerId worker) const;
  const Chunk* find_chunk(WorkerId owner, Lane lane, const ChunkId& id) const;
  void forget_old(StageId stage, Lane lane, int64_t round);
  void note_part(WorkerId from, ReplicaId owner, const LanePlan& plan, const ChunkId& id,
                 bool weighs, Nanos now);
  void adopt(size_t worker, const Work& work);
  void give_up(size_t worker, int64_t evaluation);

  std::string contribute(size_t worker, const Work& work, const Moment& moment);
  std::string reduce(size_t worker, const Work& work);
  std::string merge(size_t worker, const Work& work, const Moment& moment);
  std::string duties(size_t worker, Nanos now) const;
  std::string at_boundary(size_t worker, const LanePlan& plan, const Moment& moment) const;
  std::string where_merges_are(size_t worker, const LanePlan& plan, const Work& work,
                               const Moment& moment) const;
  std::string planned_lag(size_t worker, const Work& work, const Moment& moment, int64_t lag,
                          std::optional<int64_t> planned);
  // Of a common model, which has its own checker.
  std::string at_boundary_if_needed(size_t worker, const LanePlan& plan, const Work& work,
                                    const Moment& moment) const;

  Mesh mesh_;
  RunPlan plan_;
  std::vector<LanePlan> lanes_;
  std::vector<Seat> seats_;                                      // by worker
  std::vector<std::array<RoundWindow<Chunks>, kLanes>> chunks_;  // by stage and lane
  std::map<int64_t, Membership> tables_;                         // by number
};

}  // namespace leeway::sim
