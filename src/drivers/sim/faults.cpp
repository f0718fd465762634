#include "drivers/sim/faults.h"

#include <algorithm>

#include "base/check.h"

namespace leeway::sim {
std::vector<LinkOutage> cut_off(const Mesh& mesh, WorkerId worker, const Window& window) {
  std::vector<LinkOutage> outages;
  for (int64_t r = 0; r < mesh.replicas; ++r) {
    const WorkerId other = {.replica = {r}, .stage = worker.stage};
    if (other == worker) continue;
    outages.push_back({.from = worker, .to = other, .window = window});
    outages.push_back({.from = other, .to = worker, .window = window});
  }
  return outages;
}

std::vector<Departure> departures_of(const Mesh& mesh, ReplicaId replica, Nanos at) {
  std::vector<Departure> departures;
  for (int64_t s = 0; s < mesh.stages; ++s) {
    departures.push_back({.worker = {.replica = replica, .stage = {s}}, .at = at});
  }
  return departures;
}

Faults::Faults(const Mesh& mesh, const std::vector<LinkOutage>& outages,
               const std::vector<Departure>& departures)
    : mesh_(mesh), outages_(outages), gone_at_(mesh.count()) {
  for (const LinkOutage& outage : outages) {
    LEEWAY_CHECK(mesh.contains(outage.from), "an outage is between workers of this mesh");
    LEEWAY_CHECK(mesh.contains(outage.to), "an outage is between workers of this mesh");
    LEEWAY_CHECK(outage.from.replica != outage.to.replica,
                 "a pipeline cannot continue after losing a message");
  }
  for (const Departure& departure : departures) depart(departure);
}

void Faults::depart(const Departure& departure) {
  LEEWAY_CHECK(mesh_.contains(departure.worker), "only workers of this mesh leave");
  std::vector<Nanos>& times = gone_at_[mesh_.index(departure.worker)];
  times.insert(std::ranges::upper_bound(times, departure.at), departure.at);
}

void Faults::come_back(WorkerId worker, Nanos now) {
  std::vector<Nanos>& times = gone_at_[mesh_.index(worker)];
  times.erase(times.begin(), std::ranges::upper_bound(times, now));
}

bool Faults::is_lost(WorkerId from, WorkerId to, Nanos sent_at) const {
  return std::ranges::any_of(outages_, [&](const LinkOutage& outage) {
    const bool in_window = outage.window.begin <= sent_at && sent_at < outage.window.end;
    return in_window && outage.from == from && outage.to == to;
  });
}

bool Faults::is_gone(size_t worker, Nanos now) const {
  return !gone_at_[worker].empty() && gone_at_[worker].front() <= now;
}

bool Faults::is_stranded(ReplicaId replica, Nanos now) const {
  for (int64_t s = 0; s < mesh_.stages; ++s) {
    if (is_gone(mesh_.index({.replica = replica, .stage = {s}}), now)) return true;
  }
  return false;
}

}  // namespace leeway::sim
