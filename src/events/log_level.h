// Which pieces of work a run writes to its log, by `run.log`, and which of them a log therefore
// has. Everything else (updates, rounds, saves, evaluations) is always written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "events/event.h"
#include "events/work.h"

namespace leeway {

std::string_view log_level_word(LogLevel level);

// Whether the log has what a worker did while it made this update, counted from 1. A function of
// nothing else: all workers agree, and a reader knows what is missing. `auto` keeps the first 50
// updates and ten of every 250 later ones: 131 to 140, 381 to 390 and so on. Checkpoints and
// evaluations, which are not typical, tend to come after round numbers.
bool logs_work_of(LogLevel level, int64_t update);

// Whether the log has this piece, done by a worker while it made update `making`. The update before
// a logged stretch is logged too: the stretch begins when it ends.
bool logs(LogLevel level, const Work& work, int64_t making);

// Which work a log has, session by session. Until a session begins: all of it, as in logs of
// versions without levels.
class LogCoverage {
 public:
  // `started` or `resumed`; ignores all other events.
  void note(const Event& event);

  // As above, for a replica. A session covers the updates after the one that it resumed from.
  bool has_work_of(ReplicaId replica, int64_t update) const;
  bool has(ReplicaId replica, const Work& work, int64_t making) const;
  bool complete() const;  // nothing is ever left out
  // Nothing was left out of a run that has made this many updates.
  bool covers(int64_t updates) const;
  // The updates up to `last` whose work is logged: "1 to 50, 131 to 140, ..., 881 to 890"; "none".
  std::string text(int64_t last) const;
  // The update that the current session of this replica resumed from.
  int64_t resumed_from(ReplicaId replica) const;

 private:
  struct Session {
    LogLevel level = LogLevel::kAll;
    Event start;
  };
  LogLevel level_of(ReplicaId replica, int64_t update) const;

  std::vector<Session> sessions_;
};

// Follows the work in a log and finds the stretches in which it has everything that a worker did: a
// share of time, or a picture, is only meaningful inside them.
class LoggedStretches {
 public:
  // Call for every event, in the log's order, before place() for its work.
  void note(const Event& event);
  // The number of the worker's stretch that this piece belongs to, ascending; none: outside.
  std::optional<size_t> place(const WorkRecord& record);
  const LogCoverage& coverage() const { return coverage_; }

 private:
  struct Standing {
    int64_t making = 0;
    size_t stretch = 0;
  };

  LogCoverage coverage_;
  size_t stretches_ = 0;                  // begun so far, by any worker
  std::map<WorkerId, Standing> workers_;  // that have done something in this session
};

}  // namespace leeway
