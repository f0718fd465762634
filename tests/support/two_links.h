// Two ends of a link in virtual time, with an emulated line each way. Nothing is real but the Links
// and the bytes of their frames.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "drivers/zmq/line.h"
#include "drivers/zmq/link.h"
#include "numbered_parcel.h"

namespace leeway::zmq {

// All that a receiver can tell about a parcel.
struct Taken {
  int64_t number = 0;
  Parcel::Kind kind = Parcel::Kind::kMesh;
  size_t bytes = 0;
  uint64_t hash = 0;
  bool operator==(const Taken&) const = default;
};
inline Taken taken_of(const Parcel& parcel) {
  return {parcel.session, parcel.kind, parcel.bytes.size(), hash_bytes(parcel.bytes)};
}
using TakenByClass = std::map<TrafficClass, std::vector<Taken>>;

// As it comes from the network: every check is made.
inline Result<std::optional<Parcel>> take_frame(Link& link, const OutgoingFrame& frame, Nanos now) {
  const auto header = open_frame(std::as_bytes(std::span(&frame.header, 1)), frame.fragment());
  if (!header.ok()) return header.error();
  return link.take(*header, frame.fragment(), now);
}

class TwoLinks {
 public:
  struct Flying {
    Nanos due;
    OutgoingFrame frame;
  };
  struct End {
    Link link;
    Line line;                       // of what it sends
    std::deque<Flying> flying = {};  // to the other end
    TakenByClass taken = {};
    int64_t unacknowledged_max = 0;
    int64_t window_max = 0;
  };

  TwoLinks(const LinkOptions& options, const LineOptions& line) : TwoLinks(options, line, line) {}
  TwoLinks(LinkOptions options, const LineOptions& there, const LineOptions& back)
      : ends{End{Link(with_name(options, 0)), Line(there)},
             End{Link(with_name(options, 1)), Line(back)}} {
    greet();
  }

  // The connection is new, and both ends say so.
  void greet() {
    for (End& end : ends) end.flying.clear();
    must_take(1, ends[0].link.greeting(FrameKind::kHello, now));
    must_take(0, ends[1].link.greeting(FrameKind::kWelcome, now));
  }
  // Sends what may leave now.
  void pump(size_t from) {
    End& end = ends[from];
    while (end.line.free_at() <= now) {
      std::optional<OutgoingFrame> frame = end.link.next(now);
      if (!frame) break;
      if (on_frame) on_frame(from, *frame);
      const Nanos due = end.line.send(frame->bytes, now);
      end.flying.push_back({due, std::move(*frame)});
    }
    const int64_t unacknowledged = end.link.unacknowledged_bytes();
    end.unacknowledged_max = std::max(end.unacknowledged_max, unacknowledged);
    end.window_max = std::max(end.window_max, end.link.window_bytes());
  }
  // To the next moment at which something leaves or arrives.
  void step() {
    for (size_t from = 0; from < ends.size(); ++from) pump(from);
    Nanos next = Nanos::max();
    for (const End& end : ends) {
      next = std::min(next, std::max(end.link.speaks_by(), end.line.free_at()));
      if (end.line.free_at() > now) next = std::min(next, end.line.free_at());
      if (!end.flying.empty()) next = std::min(next, end.flying.front().due);
    }
    now = std::max(now, next);
    for (size_t from = 0; from < ends.size(); ++from) deliver(from);
  }
  bool drained() const {
    return std::ranges::all_of(ends, [](const End& end) { return end.link.drained(); });
  }
  // False: it takes longer than that.
  bool run_until_drained(Nanos at_most) {
    const Nanos end = now + at_most;
    while (!drained() && now < end) step();
    return drained();
  }

  std::array<End, 2> ends;
  Nanos now = {1'000'000'000};
  std::function<void(size_t from, const OutgoingFrame& frame)> on_frame = {};

 private:
  static LinkOptions with_name(LinkOptions options, int64_t at) {
    options.self = {at};
    options.generation = static_cast<uint64_t>(100 + at);
    return options;
  }
  void deliver(size_t from) {
    std::deque<Flying>& flying = ends[from].flying;
    while (!flying.empty() && flying.front().due <= now) {
      const OutgoingFrame frame = std::move(flying.front().frame);
      flying.pop_front();
      must_take(1 - from, frame);
    }
  }
  void must_take(size_t at, const OutgoingFrame& frame) {
    Result<std::optional<Parcel>> parcel = take_frame(ends[at].link, frame, now);
    LEEWAY_CHECK(parcel.ok(), parcel.ok() ? "" : parcel.error().message);
    if (*parcel) ends[at].taken[(*parcel)->traffic].push_back(taken_of(**parcel));
  }
};

}  // namespace leeway::zmq
