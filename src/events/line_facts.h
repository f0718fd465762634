// What merging logs must know of a line: its kind, its tick, the worker it is about. A log has
// millions of lines, so one of the form that we write is looked through, not parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace leeway {

enum class LineKind { kStarted, kResumed, kJoined, kWork, kOther };

struct LineFacts {
  LineKind kind = LineKind::kOther;
  std::optional<int64_t> tick = {};
  std::optional<WorkerId> worker = {};  // replica and stage, if the line has both
  // Where `,"tick":12` is in the line; an empty range if the line must be parsed to take it out.
  size_t tick_begin = 0;
  size_t tick_end = 0;
};

// The same for every valid line, whatever its form. An error says why it is not an event, or that
// its tick is not a whole number.
Result<LineFacts> facts_of(std::string_view line);

// Appends the line to `out`, without its tick.
void append_without_tick(std::string_view line, const LineFacts& facts, std::string& out);

}  // namespace leeway
