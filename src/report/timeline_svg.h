// A drawing of a run as SVG: one row per worker, time to the right.
#pragma once

#include <string>
#include <string_view>

#include "report/layout.h"

namespace leeway {

enum class SvgUse {
  kFile,  // has its own heading, and a `title` for each box
  kPage,  // inside a report, which has both; boxes carry numbers for its script
};

// How to read it, in one sentence.
inline constexpr std::string_view kHowToRead =
    "One row is one worker, and time runs to the right: a box is a piece of work, numbered with "
    "its microbatch or round if there is room, and a gap is waiting.";

// `title` is the file's heading. Well-formed XML that loads nothing.
std::string timeline_svg(const Drawing& drawing, std::string_view title, SvgUse use);

// The width of a row in SVG pixels, for LayoutLimits::pixels.
double timeline_pixels(const WorkHistory& history);

}  // namespace leeway
