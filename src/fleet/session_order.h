// What a process is told when a session begins, or when it fills an empty place in one: all that
// its plan does not have from the recipe and the data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "fleet/directory.h"
#include "fleet/note.h"
#include "worker/run_plan.h"

namespace leeway {

struct SessionOrder {
  int64_t number = 0;  // of the host's sessions: messages name it
  int64_t logged = 0;  // of those in the log of the run, counted from 1
  double seconds = 0;  // run time now, by the host's clock
  int64_t shift = 0;   // MeshData::shift
  bool evaluates_first = false;
  bool has_state = false;  // workers ask the host for the state that they begin with
  // Of RunPlan:
  int64_t first_update = 0;
  int64_t last_update = 0;
  uint64_t run = 0;
  uint64_t recipe = 0;
  // Another one for each session: states of an earlier one, or of another run, are of other
  // weights.
  uint64_t timeline = 0;
  std::vector<ReplicaStart> starts = {};
  std::vector<Place> places = {};  // of this process
  Directory directory = {};
};

Note to_note(const SessionOrder& order);
Result<SessionOrder> session_order_from(const Note& note);

}  // namespace leeway
