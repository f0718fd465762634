#include "report/cores.h"

#include <fmt/format.h>

#include <fstream>

#include "base/human.h"

namespace leeway {

std::string CoresUsed::text() const {
  return fmt::format("{} on {}", counted(threads, "thread"), counted(cores, "core"));
}

CoresUsed cores_of(const Event& event) {
  return {.cores = event.integer("cores").value_or(0),
          .threads = event.integer("threads").value_or(0)};
}

CoresUsed read_cores(const Path& run_folder) {
  std::ifstream log(run_folder / "events.jsonl");
  std::string line;
  std::getline(log, line);
  const auto event = Event::parse(line);
  return event.ok() ? cores_of(*event) : CoresUsed{};
}

}  // namespace leeway
