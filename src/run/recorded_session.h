// How far a session had come by its log, for a coordinator that is started again while its workers
// go on.
#pragma once

#include <cstdint>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "run/training_observer.h"
#include "worker/run_plan.h"

namespace leeway {

struct RecordedSession {
  // As of the newest update that has a line. Bytes are those of earlier sessions, and of workers
  // that were replaced: the others still count what they have sent.
  RunCounters counters;
  NewestEvaluations valid = {};
  int64_t table = 0;  // number of the newest
  int64_t tick = 0;   // of the last line
};

struct SessionInLog {
  Path log;
  int64_t number = 0;         // of the sessions in this log, counted from 1
  const RunCounters& before;  // with which it began
};
Result<RecordedSession> read_recorded_session(const SessionInLog& session, const Recipe& recipe,
                                              const RunPlan& plan);

}  // namespace leeway
