// What is drawn of a run: boxes in lanes, few enough for one file, however long the run.
#pragma once

#include <array>
#include <vector>

#include "report/window.h"
#include "report/work_history.h"

namespace leeway {

// One piece of work, or several that are too narrow to be told apart.
struct Box {
  TimeSpan span;                                // inside the window
  Nanos busy;                                   // less than the span where several leave gaps
  const WorkRecord* record = nullptr;           // null: several
  std::array<int64_t, kWorkKinds> counts = {};  // of several
  double share() const;                         // busy, of the span
};

// Pieces shorter than `resolution` are drawn together with such neighbours while all of them fit
// into one `resolution`: what is drawn is then no wider than what could be seen, and gaps that are
// longer stay gaps.
std::vector<Box> boxes_of(const WorkerHistory& lane, const TimeSpan& window, Nanos resolution);

struct DrawnLane {
  WorkerId worker;
  std::vector<Box> boxes;
};

struct Picture {
  Window window;
  std::vector<DrawnLane> lanes;
};

struct Drawing {
  std::vector<Picture> pictures;
  size_t lanes_left_out = 0;                // workers of later replicas
  size_t merged = 0;                        // boxes that stand for several pieces
  std::array<bool, kWorkKinds> kinds = {};  // which there are
};

struct LayoutLimits {
  double pixels = 1080;       // width of a picture
  double pixels_min = 0.05;   // of a box: it can be looked at twenty times enlarged
  size_t boxes_max = 20'000;  // in all pictures; then more are drawn together
  size_t lanes_max = 64;      // whole replicas, and at least one
};

// `history` outlives the drawing.
Drawing lay_out(const WorkHistory& history, const std::vector<Window>& windows,
                const LayoutLimits& limits);

}  // namespace leeway
