#include "worker/deadline.h"

#include <algorithm>

namespace leeway {
namespace {

constexpr int64_t kRoundsOfSlowest = 2;
constexpr int64_t kRoundsOfTypical = 8;

}  // namespace

Nanos deadline_of(const LanePlan& plan, const FleetPace& pace) {
  const Nanos shortest = *plan.deadline;
  if (!plan.deadline_follows) return shortest;
  std::vector<Nanos> known;
  bool all_known = true;
  for (size_t r = 0; r < pace.update_times.size(); ++r) {
    if (pace.absent.contains({static_cast<int64_t>(r)})) continue;
    if (pace.update_times[r] > Nanos{0}) {
      known.push_back(pace.update_times[r]);
    } else {
      all_known = false;
    }
  }
  if (known.empty()) return shortest * kRoundsOfTypical;
  std::sort(known.begin(), known.end());
  const Nanos most = known[(known.size() - 1) / 2] * kRoundsOfTypical;
  const Nanos wanted = all_known ? std::min(known.back() * kRoundsOfSlowest, most) : most;
  return std::max(shortest, wanted * plan.interval * pace.stretch);
}

}  // namespace leeway
