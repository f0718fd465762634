#include "drivers/sim/links.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace leeway::sim {
namespace {

Nanos time_on_link(int64_t bytes, double bytes_per_second) {
  if (bytes_per_second == 0) return {0};
  return Nanos::rounded(std::ceil(static_cast<double>(bytes) / bytes_per_second * kNanosPerSecond));
}

void check_options(const LinkOptions& options) {
  LEEWAY_CHECK(options.latency.count >= 0, "no message arrives before it was sent");
  LEEWAY_CHECK(options.jitter.count >= 0, "jitter is added, never taken away");
  LEEWAY_CHECK(options.bytes_per_second >= 0, "a bandwidth is positive, or 0 for no limit");
}

}  // namespace

Links::Links(const Mesh& mesh, Options options)
    : mesh_(mesh),
      options_(std::move(options)),
      by_sender_(mesh.count()),
      lines_(options_.places.lines.size()) {
  const Places& places = options_.places;
  LEEWAY_CHECK(!has_places() || places.machine_of.size() == mesh.count(),
               "a machine for every worker");
  LEEWAY_CHECK(places.between.size() == places.sites * places.sites,
               "a link for every pair of sites");
  for (const LinkOptions& between : places.between) check_options(between);
  check_options(options_.all);
  for (const LinkException& exception : options_.exceptions) {
    check_options(exception.options);
    LEEWAY_CHECK(mesh.contains(exception.from), "an exception for a link of this mesh");
    LEEWAY_CHECK(mesh.contains(exception.to), "an exception for a link of this mesh");
  }
}

Nanos Links::send(WorkerId from, WorkerId to, int64_t payload_bytes, Nanos now) {
  LEEWAY_CHECK(payload_bytes >= 0, "payload bytes are not negative");
  Link& on = link(from, to);
  const int64_t bytes = kHeaderBytes + payload_bytes;
  const bool lines = has_places() && !on.inside;
  Passage passage = pass_link(on, bytes, now);
  if (lines) pass_up(machine_of(from), bytes, now, passage);
  const LinkOptions& options = *on.options;
  const Nanos latency =
      options.trace != nullptr ? options.trace->latency(passage.end) : options.latency;
  const Nanos flight = latency + jitter(from, on);
  Nanos arrival = passage.end + flight;
  if (lines) arrival = pass_down(machine_of(to), bytes, flight, passage);
  on.last_arrival = std::max(on.last_arrival, arrival);
  ++on.messages;
  on.payload_bytes += payload_bytes;
  return on.last_arrival;
}

Links::Passage Links::pass_link(Link& on, int64_t bytes, Nanos now) const {
  const Nanos begin = std::max(now, on.free_at);
  const LinkOptions& options = *on.options;
  on.free_at = options.trace != nullptr ? options.trace->end_of_transfer(begin, bytes)
                                        : begin + time_on_link(bytes, options.bytes_per_second);
  return {begin, on.free_at};
}

// The bytes pass line and link at the same time: the slower one decides when the last byte leaves.
void Links::pass_up(size_t machine, int64_t bytes, Nanos now, Passage& passage) {
  Line& line = lines_[machine];
  const double rate = options_.places.lines[machine].up_bytes_per_second;
  const Nanos begin = std::max(now, line.up_free_at);
  line.up_free_at = begin + time_on_link(bytes, rate);
  passage = {std::max(passage.begin, begin), std::max(passage.end, line.up_free_at)};
}

// Served in sending order, which can differ from arrival order if the links' latencies differ.
Nanos Links::pass_down(size_t machine, int64_t bytes, Nanos flight, const Passage& passage) {
  Line& line = lines_[machine];
  const double rate = options_.places.lines[machine].down_bytes_per_second;
  if (rate == 0) return passage.end + flight;
  line.down_free_at =
      std::max(passage.begin + flight, line.down_free_at) + time_on_link(bytes, rate);
  return std::max(passage.end + flight, line.down_free_at);
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
    const bool inside = has_places() && machine_of(from) == machine_of(to);
    found = links.insert(found, Link{.to = to, .options = &options_of(from, to), .inside = inside});
  }
  return *found;
}

const LinkOptions& Links::options_of(WorkerId from, WorkerId to) const {
  static const LinkOptions kInside = {};
  const Places& places = options_.places;
  const LinkOptions* options = &options_.all;
  if (has_places()) {
    const size_t here = machine_of(from);
    const size_t there = machine_of(to);
    if (here == there) return kInside;
    options = &places.between[places.site_of[here] * places.sites + places.site_of[there]];
  }
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
