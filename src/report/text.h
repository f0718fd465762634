// Numbers and times as text, for pictures and tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/work_history.h"

namespace leeway {

// "0 s", "12.3 µs", "4.56 ms", "61.23 s": at least three significant digits.
std::string time_text(Nanos time);

// At most three decimals, no trailing zeros: a picture has many numbers.
std::string number_text(double value);

// For XML, inside and outside quotes. Characters not allowed in XML become '?'.
std::string escaped(std::string_view text);

struct Tick {
  Nanos time;
  std::string label;
};

// About `count` round times inside the span, all with the same number of decimals.
std::vector<Tick> ticks(const TimeSpan& span, int count);

}  // namespace leeway
