#include "drivers/sim/pauses.h"

#include <algorithm>

#include "base/check.h"

namespace leeway::sim {

Pauses::Pauses(const Mesh& mesh, const std::vector<Pause>& pauses) : by_worker_(mesh.count()) {
  std::vector<Pause> sorted = pauses;
  const auto earlier = [](const Pause& a, const Pause& b) { return a.begin < b.begin; };
  std::stable_sort(sorted.begin(), sorted.end(), earlier);
  for (const Pause& pause : sorted) {
    LEEWAY_CHECK(mesh.contains(pause.worker), "only workers of this mesh pause");
    LEEWAY_CHECK(pause.begin.count >= 0 && pause.length.count > 0,
                 "a pause has a length and begins at 0 or later");
    std::vector<Window>& windows = by_worker_[mesh.index(pause.worker)];
    const Nanos end = pause.begin + pause.length;
    if (!windows.empty() && pause.begin <= windows.back().end) {
      windows.back().end = std::max(windows.back().end, end);
    } else {
      windows.push_back({pause.begin, end});
    }
  }
}

std::optional<Nanos> Pauses::awake_at(size_t worker, Nanos now) const {
  const auto pause = first_after(worker, now);
  if (pause != by_worker_[worker].end() && pause->begin <= now) return pause->end;
  return std::nullopt;
}

std::vector<Window>::const_iterator Pauses::first_after(size_t worker, Nanos now) const {
  const auto over = [](const Window& pause, Nanos at) { return pause.end <= at; };
  const std::vector<Window>& pauses = by_worker_[worker];
  return std::lower_bound(pauses.begin(), pauses.end(), now, over);
}

Nanos Pauses::work(size_t worker, Nanos begin, Nanos duration, BusyIntervals& busy) const {
  for (auto pause = first_after(worker, begin); pause != by_worker_[worker].end(); ++pause) {
    if (begin + duration <= pause->begin) break;
    LEEWAY_CHECK(begin <= pause->begin, "a paused worker starts nothing");
    busy.add(begin, pause->begin);
    duration = duration - (pause->begin - begin);
    begin = pause->end;
  }
  busy.add(begin, begin + duration);
  return begin + duration;
}

}  // namespace leeway::sim
