// What all workers of a session agree on before it begins. Pure data: every worker computes the
// same answers from it, and none of it is sent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "pipeline/schedule.h"
#include "worker/lane.h"

namespace leeway {

// Where a replica resumes: its checkpoint's counters.
struct ReplicaStart {
  int64_t update = 0;
  std::vector<std::vector<int64_t>> rounds = {};        // next round by stage, then by lane
  std::vector<std::vector<ChunkPosition>> chunks = {};  // of a common model, by stage; or empty
};

struct RunPlan {
  PipelineShape shape;
  int64_t first_update = 0;        // updates done when the session begins
  int64_t last_update = 0;         // updates done when it ends
  int64_t run_updates = 0;         // updates of the whole run
  int64_t evaluate_every = 0;      // updates; 0: only after the last of the run
  int64_t evaluation_batches = 0;  // validation batches per evaluation; 0: no validation data
  int64_t checkpoint_every = 0;    // updates; 0: only at the end of the session
  bool saves = true;
  int64_t activation_bytes = 0;  // one microbatch between two stages
  int64_t evaluation_bytes = 0;  // the same of validation data, which is sent as it is computed
  // For a replica that joins: the size of a stage's state, where nothing is computed, and how fast
  // it may be sent; 0: at any speed.
  int64_t state_bytes = 0;
  double join_bytes_per_second = 0;
  // Extra flush points of a recorded run, by replica, ascending; empty: none.
  std::vector<std::vector<int64_t>> flushes = {};
  int64_t replicas = 1;
  std::vector<LanePlan> lanes = {};                   // those the run has, but for evaluation
  LanePlan evaluation = {.lane = Lane::kEvaluation};  // copies for validation
  uint64_t seed = 0;                                  // the run's; a failed check prints it
  uint64_t run = 0;                                   // which run this is, and
  uint64_t recipe = 0;  // a hash of its recipe: every message names both
  // Empty places are filled again: if no replica is whole, the session waits for that, and ends so
  // that all can go on from a checkpoint.
  bool refills = false;
  // Updates each replica has done; they can differ after an on_arrival run was stopped.
  std::vector<ReplicaStart> starts = {};

  // Updates each replica has done when a recorded run ended, if that differs; empty: last_update.
  std::vector<int64_t> ends = {};

  // Replicas wait for each other's parts, so they stop, save and resume at the same updates.
  bool together() const {
    return std::ranges::any_of(lanes,
                               [](const LanePlan& lane) { return lane.lag_backwards.has_value(); });
  }
  // Replicas that wait for each other take one that comes back in where a session ends: all go on
  // from one checkpoint.
  bool regroups() const { return together(); }
  // How long a part of a state keeps the next one waiting.
  Nanos join_pace(int64_t bytes) const {
    if (join_bytes_per_second <= 0) return {};
    return Nanos::rounded(static_cast<double>(bytes) / join_bytes_per_second * 1e9);
  }
  Mesh mesh() const { return {.stages = shape.stages, .replicas = replicas}; }
  // No update comes after this one, in this session or in a later one.
  int64_t updates_max() const { return std::max(run_updates, last_update); }
  int64_t last_update_of(ReplicaId replica) const {
    return ends.empty() ? last_update : ends[static_cast<size_t>(replica.value)];
  }
  int64_t first_update_of(ReplicaId replica) const {
    return starts.empty() ? first_update : starts[static_cast<size_t>(replica.value)].update;
  }

  bool evaluates(int64_t update) const {
    if (evaluation_batches == 0) return false;
    return update == run_updates || (evaluate_every > 0 && update % evaluate_every == 0);
  }
  bool evaluates_mean(int64_t update) const { return evaluation.evaluates_mean(update); }
  // Whether an evaluation is of the model, not of one replica's own weights.
  bool evaluates_model(int64_t update) const {
    return evaluation.of_common || evaluates_mean(update);
  }
  bool checkpoints(int64_t update) const {
    return checkpoint_every > 0 && update % checkpoint_every == 0;
  }
  // A flush point that is or was a checkpoint.
  bool saves_at(ReplicaId replica, int64_t update) const {
    const std::vector<int64_t>& recorded = flushes_of(replica);
    return checkpoints(update) || std::binary_search(recorded.begin(), recorded.end(), update);
  }
  // The next flush point of a stage that has done `updates`, `last` at the latest.
  UpdateId next_flush(ReplicaId replica, int64_t updates, int64_t last) const {
    if (shape.synchronous()) return {std::min(updates + 1, last)};
    int64_t next = last;
    if (checkpoint_every > 0) {
      next = std::min(next, (updates / checkpoint_every + 1) * checkpoint_every);
    }
    const std::vector<int64_t>& recorded = flushes_of(replica);
    const auto later = std::upper_bound(recorded.begin(), recorded.end(), updates);
    return {later == recorded.end() ? next : std::min(next, *later)};
  }

 private:
  const std::vector<int64_t>& flushes_of(ReplicaId replica) const {
    static const std::vector<int64_t> kNone;
    return flushes.empty() ? kNone : flushes[static_cast<size_t>(replica.value)];
  }
};

}  // namespace leeway
