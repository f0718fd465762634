#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace leeway {
namespace {

struct TimeUnit {
  const char* name;
  double nanos;
};

// The largest unit that is not larger than the time.
TimeUnit time_unit_for(double nanos) {
  constexpr std::array<TimeUnit, 3> kUnits = {{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}}};
  for (const TimeUnit& unit : kUnits) {
    if (nanos >= unit.nanos) return unit;
  }
  return {"ns", 1.0};
}

// 1, 2 or 5 times a power of ten nanoseconds, and not less than `least`.
int64_t round_step(int64_t least) {
  for (int64_t step = 1;; step *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (step * factor >= least) return step * factor;
    }
  }
}

}  // namespace

std::string time_text(Nanos time) {
  if (time.count == 0) return "0 s";
  const double nanos = std::abs(static_cast<double>(time.count));
  const TimeUnit unit = time_unit_for(nanos);
  const double value = static_cast<double>(time.count) / unit.nanos;
  const int before_point = static_cast<int>(std::floor(std::log10(nanos / unit.nanos))) + 1;
  const int decimals = unit.nanos == 1.0 ? 0 : std::clamp(3 - before_point, 0, 2);
  // Minutes get hundredths too, so that neighbouring times do not look the same.
  return fmt::format("{:.{}f} {}", value, unit.nanos == 1e9 ? 2 : decimals, unit.name);
}

std::string number_text(double value) {
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

std::vector<Tick> ticks(const TimeSpan& span, int count) {
  const int64_t step = round_step((span.length().count + count - 1) / count);
  const TimeUnit unit = time_unit_for(static_cast<double>(span.end.count));
  const double steps_per_unit = unit.nanos / static_cast<double>(step);
  const int decimals = std::max(0, static_cast<int>(std::ceil(std::log10(steps_per_unit) - 1e-9)));
  std::vector<Tick> found;
  const int64_t first = (span.begin.count + step - 1) / step * step;
  for (int64_t time = first; time <= span.end.count; time += step) {
    found.push_back({Nanos{time}, fmt::format("{:.{}f} {}", static_cast<double>(time) / unit.nanos,
                                              decimals, unit.name)});
  }
  return found;
}

}  // namespace leeway
