// Histories of work from events in memory, for tests of what is drawn and measured.
#pragma once

#include <utility>
#include <vector>

#include "events/log_level.h"
#include "report/work_survey.h"
#include "superseded.h"

namespace leeway {

inline WorkHistory work_history(const std::vector<Event>& events) {
  WorkHistoryBuilder builder;
  LoggedStretches stretches;
  for (const Event& event : drop_superseded(events)) {
    stretches.note(event);
    if (event.kind() == "resumed") builder.add_flush(event.integer("update").value_or(0));
    if (event.kind() != kWorkEvent) continue;
    const WorkRecord record = *work_of(event);
    if (const auto stretch = stretches.place(record)) builder.add(record, *stretch);
  }
  if (!stretches.coverage().complete()) builder.cover_only_sessions();
  return std::move(builder).finish();
}

inline std::vector<StageRow> measure_stages(const WorkHistory& history,
                                            const std::vector<TimeSpan>& windows) {
  std::vector<StageRow> rows = survey_of(history).rows;
  add_drawn(rows, history, windows);
  return rows;
}

}  // namespace leeway
