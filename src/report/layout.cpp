#include "report/layout.h"

#include <algorithm>

namespace leeway {
namespace {

std::optional<TimeSpan> clipped(const WorkRecord& record, const TimeSpan& window) {
  const TimeSpan span{std::max(record.times.begin, window.begin),
                      std::min(record.times.end, window.end)};
  // A piece that took no time is drawn only in the window it began in.
  const bool instant = record.times.begin == record.times.end && span.begin == span.end;
  if (span.begin < span.end || (instant && span.begin < window.end)) return span;
  return std::nullopt;
}

// Merges the piece into the box.
void join(Box& box, const WorkRecord& record, const TimeSpan& span) {
  if (box.record != nullptr) ++box.counts[static_cast<size_t>(shown_kind(box.record->work))];
  box.record = nullptr;
  ++box.counts[static_cast<size_t>(shown_kind(record.work))];
  const Nanos begin = std::max(span.begin, box.span.end);
  if (span.end > begin) box.busy = box.busy + (span.end - begin);
  box.span.end = std::max(box.span.end, span.end);
}

// The parts of the window that the log does not cover.
std::vector<TimeSpan> unlogged_of(const WorkerHistory& lane, const TimeSpan& window) {
  std::vector<TimeSpan> found;
  if (!lane.covered) return found;
  Nanos until = window.begin;
  for (const TimeSpan& known : *lane.covered) {
    const Nanos end = std::min(known.begin, window.end);
    if (end > until) found.push_back({until, end});
    until = std::max(until, known.end);
  }
  if (window.end > until) found.push_back({until, window.end});
  return found;
}

// As many whole replicas as fit, and always the first.
size_t lanes_drawn(const WorkHistory& history, size_t lanes_max) {
  size_t drawn = 0;
  for (size_t end = 1; end <= history.lanes.size(); ++end) {
    const bool replica_ends =
        end == history.lanes.size() ||
        history.lanes[end].worker.replica != history.lanes[end - 1].worker.replica;
    if (replica_ends && (drawn == 0 || end <= lanes_max)) drawn = end;
  }
  return drawn;
}

Picture picture_of(const WorkHistory& history, const Window& window, size_t lanes,
                   Nanos resolution) {
  Picture picture{.window = window, .lanes = {}};
  for (size_t i = 0; i < lanes; ++i) {
    const WorkerHistory& lane = history.lanes[i];
    picture.lanes.push_back(
        {lane.worker, boxes_of(lane, window.span, resolution), unlogged_of(lane, window.span)});
  }
  return picture;
}

size_t count_boxes(const Picture& picture) {
  size_t sum = 0;
  for (const DrawnLane& lane : picture.lanes) sum += lane.boxes.size();
  return sum;
}

void count_kinds(Drawing& drawing) {
  for (const Picture& picture : drawing.pictures) {
    for (const DrawnLane& lane : picture.lanes) {
      for (const Box& box : lane.boxes) {
        if (box.record == nullptr) {
          ++drawing.merged;
        } else {
          drawing.kinds[static_cast<size_t>(shown_kind(box.record->work))] = true;
        }
      }
    }
  }
}

}  // namespace

double Box::share() const {
  const int64_t length = span.length().count;
  return length > 0 ? static_cast<double>(busy.count) / static_cast<double>(length) : 1.0;
}

std::vector<Box> boxes_of(const WorkerHistory& lane, const TimeSpan& window, Nanos resolution) {
  std::vector<Box> boxes;
  bool open = false;  // the last box is narrow and may grow
  for (const WorkRecord& record : lane.records) {
    const auto span = clipped(record, window);
    if (!span) continue;
    const bool narrow = span->length() < resolution;
    if (narrow && open && span->end - boxes.back().span.begin <= resolution) {
      join(boxes.back(), record, *span);
      continue;
    }
    boxes.push_back({.span = *span, .busy = span->length(), .record = &record, .counts = {}});
    open = narrow;
  }
  return boxes;
}

Drawing lay_out(const WorkHistory& history, const std::vector<Window>& windows,
                const LayoutLimits& limits) {
  Drawing drawing;
  const size_t lanes = lanes_drawn(history, limits.lanes_max);
  drawing.lanes_left_out = history.lanes.size() - lanes;
  const size_t boxes_max = limits.boxes_max / std::max<size_t>(windows.size(), 1);
  for (const Window& window : windows) {
    const double pixel = static_cast<double>(window.span.length().count) / limits.pixels;
    double resolution = pixel * limits.pixels_min;
    while (true) {
      Picture picture = picture_of(history, window, lanes, Nanos{static_cast<int64_t>(resolution)});
      // At a resolution of the whole window nothing is left to merge.
      if (count_boxes(picture) <= boxes_max || resolution >= pixel * limits.pixels) {
        drawing.pictures.push_back(std::move(picture));
        break;
      }
      resolution = std::max(resolution * 2.0, 1.0);
    }
  }
  count_kinds(drawing);
  return drawing;
}

}  // namespace leeway
