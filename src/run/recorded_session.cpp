#include "run/recorded_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "events/log_cursor.h"
#include "events/work.h"
#include "run/mesh_model.h"
#include "run/recorder.h"

namespace leeway {
namespace {

void note_recorded_update(const Event& event, const Recipe& recipe, RunCounters& counters) {
  counters.update = std::max(counters.update, event.integer("update").value_or(0));
  const double seconds = event.number("seconds").value_or(counters.seconds);
  counters.seconds_updating += std::max(0.0, seconds - counters.seconds);
  counters.seconds = seconds;
  counters.tokens_missed = 0;
  const int64_t planned = tokens_read(counters, recipe);
  counters.tokens_missed = planned - event.integer("tokens").value_or(planned);
  note_loss(counters, event.number("loss").value_or(0));
}

void note_recorded_evaluation(const Event& event, bool common, NewestEvaluations& valid) {
  const bool own = event.kind() == "evaluated_own";
  const auto loss = event.number(own ? "valid_loss_own" : "valid_loss");
  const auto replicas = replicas_of(event.text("replicas").value_or("?"));
  if (!loss || !replicas) return;
  (own ? valid.own : valid.mean) =
      Evaluated{event.integer("update").value_or(0), *loss, *replicas, own, common};
}

PurposeBytes bytes_in(const Event& event) {
  const auto bytes = [&](const char* name) { return event.integer(name).value_or(0); };
  return {.activations = bytes("bytes_activations"),
          .gradients = bytes("bytes_gradients"),
          .averaging = bytes("bytes_averaging"),
          .evaluation = bytes("bytes_evaluation"),
          .copies = bytes("bytes_copies")};
}

}  // namespace

Result<RecordedSession> read_recorded_session(const SessionInLog& session, const Recipe& recipe,
                                              const RunPlan& plan) {
  RecordedSession recorded = {.counters = session.before};
  LEEWAY_ASSIGN(LogCursor cursor, LogCursor::open(session.log));
  while (!cursor.at_end()) {
    if (cursor.line().session == session.number) {
      recorded.tick = cursor.line().tick;
      const Result<Event> event = Event::parse(cursor.text());
      const std::string kind = event.ok() ? event->kind() : "";
      if (kind == "update") note_recorded_update(*event, recipe, recorded.counters);
      if (kind == "evaluated" || kind == "evaluated_own") {
        note_recorded_evaluation(*event, plan.evaluation.of_common, recorded.valid);
      }
      if (kind == "members") {
        recorded.table = std::max(recorded.table, event->integer("table").value_or(0));
      }
      if (kind == "replaced") {
        recorded.counters = with_bytes(std::move(recorded.counters), bytes_in(*event));
      }
    }
    LEEWAY_TRY(cursor.advance());
  }
  if (recorded.tick > 0) return recorded;
  return Error{
      fmt::format("{} does not have the session that goes on; to go on from the newest checkpoint "
                  "instead, remove fleet.session beside it",
                  session.log.string())};
}

}  // namespace leeway
