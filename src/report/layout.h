// Layout of a timeline: boxes in lanes, few enough for one file however long the run is.
#pragma once

#include <array>
#include <vector>

#include "report/window.h"
#include "report/work_history.h"

namespace leeway {

// One piece of work, or several too narrow to tell apart.
struct Box {
  TimeSpan span;                                // inside the window
  Nanos busy;                                   // less than the span if several leave gaps
  const WorkRecord* record = nullptr;           // null: several pieces
  std::array<int64_t, kWorkKinds> counts = {};  // used if several
  double share() const;                         // busy part of the span
};

// Merges neighbouring pieces shorter than `resolution` while they fit into one `resolution`
// together. A merged box is then no wider than what is visible, and longer gaps stay gaps.
std::vector<Box> boxes_of(const WorkerHistory& lane, const TimeSpan& window, Nanos resolution);

struct DrawnLane {
  WorkerId worker;
  std::vector<Box> boxes;
  std::vector<TimeSpan> unlogged = {};  // parts of the window in which the log lacks work
};

struct Picture {
  Window window;
  std::vector<DrawnLane> lanes;
};

struct Drawing {
  std::vector<Picture> pictures;
  size_t lanes_left_out = 0;                // workers of the last replicas
  size_t merged = 0;                        // boxes that stand for several pieces
  std::array<bool, kWorkKinds> kinds = {};  // kinds that occur
};

struct LayoutLimits {
  double pixels = 1080;       // width of a picture
  double pixels_min = 0.05;   // width of a box: separate boxes show at a zoom of 20
  size_t boxes_max = 20'000;  // in all pictures; above it more boxes are merged
  size_t lanes_max = 64;      // counts whole replicas, at least one
};

// `history` must outlive the drawing.
Drawing lay_out(const WorkHistory& history, const std::vector<Window>& windows,
                const LayoutLimits& limits);

}  // namespace leeway
