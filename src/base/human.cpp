#include "base/human.h"

#include <fmt/format.h>

namespace leeway {

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    // 999.95 would print as 1000.0: it belongs to the next unit.
    if (*unit != '\0' && value < 999.95) break;
    value /= 1000.0;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string human_seconds(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string human_count(uint64_t count) {
  if (count < 1000) return fmt::format("{}", count);
  return fmt::format("{},{:03}", human_count(count / 1000), count % 1000);
}

std::string shown_bytes(double bytes) {
  constexpr double kMost = 1e18;  // no machine has more
  if (bytes > kMost) return "more than 1,000,000 TB";
  return human_bytes(static_cast<uint64_t>(bytes));
}

}  // namespace leeway
