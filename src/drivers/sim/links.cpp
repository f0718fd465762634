#include "drivers/sim/links.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace leeway::sim {
namespace {

constexpr double kNanosPerSecond = 1e9;

Nanos time_on_link(int64_t bytes, double bytes_per_second) {
  if (bytes_per_second == 0) return {0};
  return {std::llround(std::ceil(static_cast<double>(bytes) / bytes_per_second * kNanosPerSecond))};
}

void check_options(const LinkOptions& options) {
  LEEWAY_CHECK(options.latency.count >= 0, "no message arrives before it was sent");
  LEEWAY_CHECK(options.jitter.count >= 0, "jitter is added, never taken away");
  LEEWAY_CHECK(options.bytes_per_second >= 0, "a bandwidth, or 0 for no limit");
}

}  // namespace

Links::Links(const Mesh& mesh, Options options)
    : mesh_(mesh), options_(std::move(options)), by_sender_(mesh.count()) {
  check_options(options_.all);
  for (const LinkException& exception : options_.exceptions) {
    check_options(exception.options);
    LEEWAY_CHECK(mesh.contains(exception.from), "an exception for a link of this mesh");
    LEEWAY_CHECK(mesh.contains(exception.to), "an exception for a link of this mesh");
  }
}

Nanos Links::send(WorkerId from, WorkerId to, int64_t payload_bytes, Nanos now) {
  LEEWAY_CHECK(payload_bytes >= 0, "a message has bytes or none");
  Link& on = link(from, to);
  const Nanos occupied = time_on_link(kHeaderBytes + payload_bytes, on.options->bytes_per_second);
  on.free_at = std::max(now, on.free_at) + occupied;
  const Nanos arrival = on.free_at + on.options->latency + jitter(from, on);
  on.last_arrival = std::max(on.last_arrival, arrival);
  ++on.messages;
  on.payload_bytes += payload_bytes;
  return on.last_arrival;
}

std::vector<LinkStatistics> Links::statistics() const {
  std::vector<LinkStatistics> all;
  for (size_t from = 0; from < by_sender_.size(); ++from) {
    for (const Link& used : by_sender_[from]) {
      all.push_back({mesh_.id(from), used.to, used.messages, used.payload_bytes});
    }
  }
  return all;
}

Links::Link& Links::link(WorkerId from, WorkerId to) {
  LEEWAY_CHECK(mesh_.contains(from) && mesh_.contains(to), "a message between workers of the mesh");
  std::vector<Link>& links = by_sender_[mesh_.index(from)];
  const auto before = [](const Link& a, WorkerId b) { return a.to < b; };
  auto found = std::lower_bound(links.begin(), links.end(), to, before);
  if (found == links.end() || found->to != to) {
    found = links.insert(found, Link{.to = to, .options = &options_of(from, to)});
  }
  return *found;
}

const LinkOptions& Links::options_of(WorkerId from, WorkerId to) const {
  const LinkOptions* options = &options_.all;
  for (const LinkException& exception : options_.exceptions) {
    if (exception.from == from && exception.to == to) options = &exception.options;
  }
  return *options;
}

Nanos Links::jitter(WorkerId from, const Link& link) const {
  if (link.options->jitter.count == 0) return {0};
  const auto pair = static_cast<uint64_t>(mesh_.index(from) * mesh_.count() + mesh_.index(link.to));
  const RandomKey key{.seed = options_.seed, .stream = Stream::kJitter, .name = pair};
  const double share = random_uniform(key, static_cast<uint64_t>(link.messages));
  return {static_cast<int64_t>(share * static_cast<double>(link.options->jitter.count + 1))};
}

}  // namespace leeway::sim
