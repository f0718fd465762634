// Random work: however boxes are merged, nothing is lost and no worker gets busier.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "../../support/work_history.h"
#include "report/layout.h"
#include "report/timeline_svg.h"

namespace leeway {
namespace {

int64_t between(int64_t min, int64_t max) { return *rc::gen::inRange<int64_t>(min, max + 1); }

// Pieces of a few workers, with gaps, without overlap, some of zero length.
WorkHistory any_history() {
  std::vector<Event> events;
  const int64_t workers = between(1, 4);
  for (int64_t worker = 0; worker < workers; ++worker) {
    int64_t time = between(0, 50);
    const int64_t pieces = between(1, 60);
    for (int64_t i = 0; i < pieces; ++i) {
      WorkRecord record;
      record.worker = {.replica = {worker / 2}, .stage = {worker % 2}};
      record.work.kind = static_cast<WorkKind>(between(0, kWorkKinds - 1));
      record.work.index = i;
      record.work.update = between(1, 9);
      record.times.begin = {time};
      time += between(0, 30);
      record.times.end = {time};
      time += between(0, 1) * between(0, 40);
      events.push_back(to_event(record));
    }
  }
  return work_history(events);
}

TimeSpan any_window(const WorkHistory& history) {
  const int64_t begin = between(0, history.span.end.count + 10);
  return {{begin}, {begin + between(1, 500)}};
}

RC_GTEST_PROP(Boxes, KeepBusyTimeAndOrderWhateverTheResolution, ()) {
  const WorkHistory history = any_history();
  const TimeSpan window = any_window(history);
  const Nanos resolution{between(0, 200)};
  for (const WorkerHistory& lane : history.lanes) {
    const auto boxes = boxes_of(lane, window, resolution);
    int64_t busy = 0;
    Nanos until = window.begin;
    for (const Box& box : boxes) {
      RC_ASSERT(box.span.begin >= until);
      RC_ASSERT(box.span.end <= window.end);
      RC_ASSERT(box.busy <= box.span.length());
      RC_ASSERT(box.record != nullptr || box.span.length() <= resolution);
      busy += box.busy.count;
      until = box.span.end;
    }
    RC_ASSERT(static_cast<double>(busy) == busy_in(lane, window).busy_ns);
  }
}

RC_GTEST_PROP(Boxes, LoseNoPiece, ()) {
  const WorkHistory history = any_history();
  const Nanos resolution{between(0, 200)};
  const TimeSpan all{{0}, history.span.end + Nanos{1}};
  for (const WorkerHistory& lane : history.lanes) {
    int64_t pieces = 0;
    for (const Box& box : boxes_of(lane, all, resolution)) {
      pieces += box.record != nullptr
                    ? 1
                    : std::accumulate(box.counts.begin(), box.counts.end(), int64_t{0});
    }
    RC_ASSERT(pieces == static_cast<int64_t>(lane.records.size()));
  }
}

RC_GTEST_PROP(Stages, SharesAreSharesInAnyWindow, ()) {
  const WorkHistory history = any_history();
  for (const StageRow& row : measure_stages(history, {any_window(history)})) {
    RC_ASSERT(*row.drawn[0].share() >= 0.0);
    RC_ASSERT(*row.drawn[0].share() <= 1.0);
    RC_ASSERT(row.after_warmup.share().value_or(1.0) <= 1.0);
  }
}

RC_GTEST_PROP(Timeline, AnyPartThatIsNotEmptyIsDrawn, ()) {
  const WorkHistory history = any_history();
  const int64_t first = between(1, 9);
  const auto windows = choose_windows(
      survey_of(history),
      {.from_seconds = {}, .to_seconds = {}, .updates = UpdateRange{first, between(first, 12)}});
  RC_PRE(windows.ok());
  const auto most = static_cast<size_t>(between(4, 100));
  const Drawing drawing = lay_out(history, *windows, {.boxes_max = most});
  RC_ASSERT(timeline_svg(drawing, "any", SvgUse::kFile).ends_with("</svg>\n"));
}

}  // namespace
}  // namespace leeway
