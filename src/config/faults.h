// What goes wrong in a run on purpose, in words: `run.faults`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leeway {

struct RunFault {
  enum class Kind {
    kLost,             // "replica 1 lost at 200": without a word, after that update
    kLeaves,           // "replica 1 leaves at 200": and says so
    kBack,             // "replica 1 back at 300", "replica 1 back with its disk at 300"
    kCoordinatorLost,  // "coordinator lost at 450": another one takes over
  };
  Kind kind = Kind::kLost;
  int64_t replica = 0;
  int64_t update = 0;
  bool with_disk = false;
};

// None: not one of the sentences above.
std::optional<RunFault> parse_run_fault(std::string_view text);

}  // namespace leeway
