#include "config/faults.h"

#include <charconv>

namespace leeway {
namespace {

// Takes these words, or a number, off the front of the text.
bool take(std::string_view& text, std::string_view words) {
  if (!text.starts_with(words)) return false;
  text.remove_prefix(words.size());
  return true;
}

bool take(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<RunFault> parse_run_fault(std::string_view text) {
  using Kind = RunFault::Kind;
  RunFault fault;
  if (take(text, "coordinator lost at ")) {
    fault.kind = Kind::kCoordinatorLost;
  } else {
    if (!take(text, "replica ") || !take(text, fault.replica)) return std::nullopt;
    if (take(text, " lost at ")) {
      fault.kind = Kind::kLost;
    } else if (take(text, " leaves at ")) {
      fault.kind = Kind::kLeaves;
    } else if (take(text, " back at ")) {
      fault.kind = Kind::kBack;
    } else if (take(text, " back with its disk at ")) {
      fault.kind = Kind::kBack;
      fault.with_disk = true;
    } else {
      return std::nullopt;
    }
  }
  if (!take(text, fault.update) || fault.update == 0 || !text.empty()) return std::nullopt;
  return fault;
}

}  // namespace leeway
