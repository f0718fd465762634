#include "report/run_timeline.h"

#include <fmt/format.h>

#include "report/layout.h"
#include "report/timeline_svg.h"
#include "report/window.h"

namespace leeway {
namespace {

template <class Pieces>
void add_all(WorkHistoryBuilder& builder, const Pieces& pieces) {
  for (const auto& piece : pieces) builder.add(piece.record, piece.session);
}

template <class Pieces>
std::vector<Window> windows_of(const Pieces& pieces) {
  WorkHistoryBuilder builder;
  add_all(builder, pieces);
  const auto windows = choose_windows(std::move(builder).finish(), {});
  LEEWAY_CHECK(windows.ok(), "without a request there must be a window");
  return *windows;
}

}  // namespace

void PieceKeeper::add(const WorkRecord& record, size_t session) {
  if (first_.size() < half_) {
    first_.push_back({record, session});
    return;
  }
  latest_.push_back({record, session});
  if (latest_.size() <= half_) return;
  latest_.pop_front();
  ++dropped_;
}

std::string PieceKeeper::svg(size_t boxes_max, std::vector<std::string>& notes) const {
  if (first_.empty()) return "";
  WorkHistoryBuilder builder;
  add_all(builder, first_);
  add_all(builder, latest_);
  const WorkHistory history = std::move(builder).finish();
  std::vector<Window> windows;
  if (dropped_ > 0) {
    windows = {windows_of(first_).front(), windows_of(latest_).back()};
    windows.front().name = "the start";
  } else {
    const auto chosen = choose_windows(history, {});
    LEEWAY_CHECK(chosen.ok(), "without a request there must be a window");
    windows = *chosen;
  }
  const Drawing drawing =
      lay_out(history, windows, {.pixels = timeline_pixels(history), .boxes_max = boxes_max});
  if (drawing.lanes_left_out > 0) {
    notes.push_back(fmt::format("the timeline shows {} of {} workers",
                                history.lanes.size() - drawing.lanes_left_out,
                                history.lanes.size()));
  }
  if (drawing.merged > 0) {
    notes.push_back(
        fmt::format("{} boxes of the timeline stand for several pieces of work each; `leeway "
                    "timeline --updates A:B` draws a part in full",
                    drawing.merged));
  }
  return timeline_svg(drawing, "Timeline", SvgUse::kPage);
}

}  // namespace leeway
