// The meaning of `resumed` in a log, for whole logs in memory.
#pragma once

#include <vector>

#include "events/event_log.h"

namespace leeway {

// The events that no later session repeated.
inline std::vector<Event> drop_superseded(const std::vector<Event>& events) {
  std::vector<Event> kept;
  for (const Event& event : events) {
    if (event.kind() == "resumed") {
      std::erase_if(kept, [&](const Event& earlier) { return supersedes(event, earlier); });
    }
    kept.push_back(event);
  }
  return kept;
}

}  // namespace leeway
