#include "report/cores.h"

#include <fmt/format.h>

#include "base/human.h"
#include "events/event_log.h"

namespace leeway {

std::string CoresUsed::text() const {
  return fmt::format("{} on {}", counted(threads, "thread"), counted(cores, "core"));
}

CoresUsed cores_of(const Event& event) {
  return {.cores = event.integer("cores").value_or(0),
          .threads = event.integer("threads").value_or(0)};
}

CoresUsed read_cores(const Path& run_folder) {
  const auto event = first_event(run_folder / "events.jsonl");
  return event ? cores_of(*event) : CoresUsed{};
}

}  // namespace leeway
