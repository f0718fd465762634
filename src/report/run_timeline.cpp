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

std::vector<Window> windows_in(const WorkHistory& history) {
  const auto windows = choose_windows(survey_of(history), {});
  LEEWAY_CHECK(windows.ok(), "without a request there must be a window");
  return *windows;
}

template <class Pieces>
std::vector<Window> windows_of(const Pieces& pieces, bool partial) {
  WorkHistoryBuilder builder;
  add_all(builder, pieces);
  if (partial) builder.cover_only_sessions();
  return windows_in(std::move(builder).finish());
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

std::string PieceKeeper::svg(size_t boxes_max, bool partial,
                             std::vector<std::string>& notes) const {
  if (first_.empty()) return "";
  WorkHistoryBuilder builder;
  add_all(builder, first_);
  add_all(builder, latest_);
  if (partial) builder.cover_only_sessions();
  const WorkHistory history = std::move(builder).finish();
  std::vector<Window> windows;
  if (dropped_ > 0) {
    windows = {windows_of(first_, partial).front(), windows_of(latest_, partial).back()};
    windows.front().name = "the start";
  } else {
    windows = windows_in(history);
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
