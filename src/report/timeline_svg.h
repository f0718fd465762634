// A drawing of a run as SVG: one row per worker, time to the right.
#pragma once

#include <string>
#include <string_view>

#include "report/layout.h"

namespace leeway {

enum class SvgUse {
  kFile,  // has its own heading, and a `title` with each box
  kPage,  // inside the HTML page, which has both; boxes carry numbers for its script
};

// How to read it, in one sentence.
inline constexpr std::string_view kHowToRead =
    "One row is one worker and time goes to the right: a box is a piece of work, with the number "
    "of its microbatch or round where there is room, and a gap is a worker that waits.";

// `title` heads the file. Well-formed XML; asks nobody for anything.
std::string timeline_svg(const Drawing& drawing, std::string_view title, SvgUse use);

// The width of a row in the SVG's own pixels: what LayoutLimits::pixels should be.
double timeline_pixels(const WorkHistory& history);

}  // namespace leeway
