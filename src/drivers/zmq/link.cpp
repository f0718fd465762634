#include "drivers/zmq/link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway::zmq {
namespace {

constexpr size_t kAveraging = static_cast<size_t>(TrafficClass::kAveraging);
constexpr int64_t kOthersShare = 9;  // so many bytes leave before one of averaging has its turn
constexpr double kWindowFactor = 1.5;
constexpr size_t kRates = 16;
constexpr Nanos kIntervalMin = {20'000'000};
// A small frame is acknowledged with what goes the other way, if that comes soon: a frame that only
// acknowledges costs as many wake-ups as one with content.
constexpr Nanos kAcknowledgeWithin = {20'000'000};
constexpr Nanos kRoundTripFor = {10'000'000'000};  // a path may change
constexpr Nanos kRoundTripMin = {500'000};
constexpr Nanos kSecond = {1'000'000'000};
// A parcel's size is what its sender says: memory is taken as its bytes arrive.
constexpr uint64_t kReserveMax = uint64_t{16} << 20;

// Of the window. Headers are left out, but for frames that are little more: else any number of them
// would fit.
int64_t window_cost(size_t length) {
  return static_cast<int64_t>(std::max(length, sizeof(FrameHeader)));
}

}  // namespace

void Link::put(Parcel parcel) {
  Outgoing& outgoing = outgoing_[static_cast<size_t>(parcel.traffic)];
  if (parcel.slot != 0) {
    const auto older = std::ranges::find(outgoing.waiting, parcel.slot, &Parcel::slot);
    if (older != outgoing.waiting.end()) {
      ++counts_.parcels_replaced;
      *older = std::move(parcel);
      return;
    }
  }
  outgoing.waiting.push_back(std::move(parcel));
}

uint64_t Link::frames_of(size_t bytes) const {
  return std::max<uint64_t>(1, (bytes + options_.fragment_bytes - 1) / options_.fragment_bytes);
}

size_t Link::length_of(const Begun& begun, uint64_t sequence) const {
  const size_t offset = (sequence - begun.first) * options_.fragment_bytes;
  return std::min(options_.fragment_bytes, begun.bytes->size() - offset);
}

int64_t Link::cost_of(const Begun& begun, uint64_t sequence) const {
  return window_cost(length_of(begun, sequence));
}

bool Link::has_next(const Outgoing& outgoing) const {
  return !outgoing.waiting.empty() || outgoing.next < outgoing.end();
}

size_t Link::next_length(const Outgoing& outgoing) const {
  for (const Begun& begun : outgoing.begun) {
    if (outgoing.next < begun.end()) return length_of(begun, outgoing.next);
  }
  return std::min(options_.fragment_bytes, outgoing.waiting.front().bytes.size());
}

// The parcel whose frame leaves next.
const Link::Begun& Link::begin(Outgoing& outgoing) {
  if (outgoing.next == outgoing.end()) {
    Parcel parcel = std::move(outgoing.waiting.front());
    outgoing.waiting.pop_front();
    auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(parcel.bytes));
    parcel.bytes = {};
    const uint64_t frames = frames_of(bytes->size());
    outgoing.begun.push_back({std::move(parcel), std::move(bytes), outgoing.next, frames});
    ++counts_.parcels_sent;
  }
  return *std::ranges::find_if(outgoing.begun,
                               [&](const Begun& begun) { return outgoing.next < begun.end(); });
}

int64_t Link::window_bytes() const {
  const Nanos round_trip = std::max(round_trip_, kRoundTripMin);
  const double under_way = kWindowFactor * bytes_per_second() * round_trip.seconds();
  return std::max(options_.window_bytes_min, static_cast<int64_t>(under_way));
}

double Link::bytes_per_second() const {
  return rates_.empty() ? 0 : *std::ranges::max_element(rates_);
}

// The class whose frame leaves next. Control is small, and waits for no window.
std::optional<size_t> Link::choose() {
  constexpr auto kControl = static_cast<size_t>(TrafficClass::kControl);
  constexpr auto kPipeline = static_cast<size_t>(TrafficClass::kPipeline);
  const bool averages = has_next(outgoing_[kAveraging]);
  if (!averages) left_before_averaging_ = 0;
  if (has_next(outgoing_[kControl])) return kControl;
  std::optional<size_t> chosen;
  if (has_next(outgoing_[kPipeline])) chosen = kPipeline;
  if (averages) {
    const int64_t bytes = bytes_on_line(next_length(outgoing_[kAveraging]), options_.encrypted);
    if (!chosen || left_before_averaging_ >= kOthersShare * bytes) chosen = kAveraging;
  }
  if (!chosen) return std::nullopt;
  const int64_t cost = window_cost(next_length(outgoing_[*chosen]));
  const bool fits = unacknowledged_ == 0 || unacknowledged_ + cost <= window_bytes();
  return fits ? chosen : std::nullopt;
}

OutgoingFrame Link::cut(size_t traffic, Nanos now) {
  Outgoing& outgoing = outgoing_[traffic];
  const Begun& begun = begin(outgoing);
  const uint64_t sequence = outgoing.next++;
  counts_.frames_repeated += sequence < outgoing.reached ? 1 : 0;
  outgoing.reached = std::max(outgoing.reached, outgoing.next);
  const size_t offset = (sequence - begun.first) * options_.fragment_bytes;
  OutgoingFrame frame = {.header = {.kind = FrameKind::kData,
                                    .traffic = static_cast<uint8_t>(traffic),
                                    .parcel_kind = static_cast<uint8_t>(begun.parcel.kind),
                                    .session = begun.parcel.session,
                                    .sequence = sequence,
                                    .offset = offset,
                                    .parcel_bytes = begun.bytes->size(),
                                    .length = length_of(begun, sequence)},
                         .buffer = begun.bytes,
                         .offset = offset};
  if (unacknowledged_ == 0) interval_begin_ = interval_begin_ + (now - idle_since_);
  unacknowledged_ += cost_of(begun, sequence);
  const int64_t bytes = bytes_on_line(frame.header.length, options_.encrypted);
  if (traffic == kAveraging) {  // what it gets while nobody else wants it is not held against it
    left_before_averaging_ = std::max<int64_t>(0, left_before_averaging_ - kOthersShare * bytes);
  } else if (has_next(outgoing_[kAveraging])) {
    left_before_averaging_ += bytes;
  }
  return frame;
}

void Link::stamp(OutgoingFrame& frame, Nanos now) {
  FrameHeader& header = frame.header;
  header.from = options_.self;
  header.generation = options_.generation;
  header.peer_generation = peer_generation_;
  header.gap = lacks_frames() ? 1 : 0;
  gap_ = false;
  for (size_t at = 0; at < incoming_.size(); ++at) header.received[at] = incoming_[at].next;
  header.sent_at = now.count;
  header.echo = echo_ == 0 ? 0 : echo_ + (now - echo_since_).count;
  seal(header, frame.fragment());
  sent_at_ = now;
  if (owed_ > 0) answered_at_ = now;
  owed_ = 0;
  frame.bytes = bytes_on_line(header.length, options_.encrypted);
  counts_.bytes_sent += frame.bytes;
}

Nanos Link::speaks_by() const {
  const Nanos beat = sent_at_ + options_.beat;
  return owed_ > 0 ? std::min(beat, owed_since_ + kAcknowledgeWithin) : beat;
}

std::optional<OutgoingFrame> Link::next(Nanos now) {
  OutgoingFrame frame;
  // The other end may have a window of two such halves.
  const bool owes_much = owed_ > 0 && 2 * owed_ >= options_.window_bytes_min;
  if (const std::optional<size_t> traffic = choose()) {
    frame = cut(*traffic, now);
  } else if (!owes_much && !gap_ && now < speaks_by()) {
    return std::nullopt;
  }
  stamp(frame, now);
  return frame;
}

OutgoingFrame Link::greeting(FrameKind kind, Nanos now) {
  OutgoingFrame frame;
  frame.header.kind = kind;
  stamp(frame, now);
  return frame;
}

bool Link::is_mine(const FrameHeader& header) const {
  const bool knows_me =
      header.peer_generation == 0 || header.peer_generation == options_.generation;
  const bool is_known = peer_generation_ == 0 || header.generation == peer_generation_;
  return knows_me && is_known;
}

Result<std::optional<Parcel>> Link::take(const FrameHeader& header,
                                         std::span<const std::byte> fragment, Nanos now) {
  for (size_t at = 0; at < outgoing_.size(); ++at) {
    if (header.received[at] > outgoing_[at].reached) {
      return Error{"a frame acknowledges what was not sent"};
    }
  }
  peer_generation_ = header.generation;
  counts_.bytes_received += bytes_on_line(fragment.size(), options_.encrypted);
  measure(header, now);
  const bool busy = unacknowledged_ > 0;
  acknowledge(header.received, now);
  if (header.kind == FrameKind::kHello || header.kind == FrameKind::kWelcome) {
    rewind(header.received);
  } else if (header.gap != 0 && (rewound_at_.count < 0 || now - rewound_at_ > kSecond)) {
    rewound_at_ = now;
    rewind(header.received);
  }
  if (busy && unacknowledged_ == 0) idle_since_ = now;
  if (header.kind != FrameKind::kData) return std::optional<Parcel>();
  return take_fragment(header, fragment, now);
}

// What was refused is asked for again and again: so it arrives once there is room.
bool Link::lacks_frames() const {
  return gap_ || std::ranges::any_of(incoming_, &Incoming::refused);
}

bool Link::has_room_for(const FrameHeader& header) const {
  uint64_t others = 0;
  for (size_t at = 0; at < incoming_.size(); ++at) {
    if (at != header.traffic) others += incoming_[at].parcel_bytes;
  }
  return others + header.parcel_bytes <= options_.unassembled_bytes_max;
}

Result<std::optional<Parcel>> Link::take_fragment(const FrameHeader& header,
                                                  std::span<const std::byte> fragment, Nanos now) {
  if (owed_ == 0) owed_since_ = now;
  owed_ += window_cost(header.length);
  Incoming& incoming = incoming_[header.traffic];
  if (header.sequence < incoming.next) return std::optional<Parcel>();  // it came before
  if (header.sequence > incoming.next) {  // what is missing was lost with a connection
    if (gap_said_at_.count < 0 || now - gap_said_at_ > kSecond) {
      gap_ = true;
      gap_said_at_ = now;
    }
    return std::optional<Parcel>();
  }
  Parcel& parcel = incoming.parcel;
  if (header.offset != parcel.bytes.size())
    return Error{"a fragment is not the next of its parcel"};
  if (header.offset == 0) {
    incoming.refused = !has_room_for(header);
    if (incoming.refused) return Error{"a parcel that is larger than its sender may send now"};
    incoming.parcel_bytes = header.parcel_bytes;
    parcel.kind = static_cast<Parcel::Kind>(header.parcel_kind);
    parcel.traffic = static_cast<TrafficClass>(header.traffic);
    parcel.session = header.session;
    parcel.bytes.reserve(std::min(header.parcel_bytes, kReserveMax));
  } else if (header.parcel_bytes != incoming.parcel_bytes || header.session != parcel.session ||
             header.parcel_kind != static_cast<uint8_t>(parcel.kind)) {
    return Error{"a fragment is of another parcel"};
  }
  ++incoming.next;
  parcel.bytes.insert(parcel.bytes.end(), fragment.begin(), fragment.end());
  if (parcel.bytes.size() < incoming.parcel_bytes) return std::optional<Parcel>();
  ++counts_.parcels_received;
  incoming.parcel_bytes = 0;
  return std::optional<Parcel>(std::exchange(parcel, {}));
}

void Link::measure(const FrameHeader& header, Nanos now) {
  heard_at_ = now;
  newest_sent_at_ = std::max(newest_sent_at_, header.sent_at);
  // A greeting goes past the emulated line, so its time says nothing about that.
  if (header.kind == FrameKind::kHello || header.kind == FrameKind::kWelcome) return;
  echo_ = header.sent_at;
  echo_since_ = now;
  if (header.echo == 0 || header.echo > now.count) return;
  const Nanos newest = now - Nanos{header.echo};
  const bool old = now - round_trip_since_ > kRoundTripFor;
  if (round_trip_.count == 0 || newest < round_trip_ || old) {
    round_trip_ = newest;
    round_trip_since_ = now;
  }
}

void Link::acknowledge(const Positions& received, Nanos now) {
  const bool busy = unacknowledged_ > 0;
  for (size_t at = 0; at < outgoing_.size(); ++at) {
    Outgoing& outgoing = outgoing_[at];
    while (outgoing.acknowledged < received[at]) {
      LEEWAY_CHECK(!outgoing.begun.empty(), "what was sent is kept until it is acknowledged");
      const Begun& begun = outgoing.begun.front();
      // After a rewind, what is acknowledged may not have been sent again yet.
      const bool counted = outgoing.acknowledged < outgoing.next;
      if (counted) {
        unacknowledged_ -= cost_of(begun, outgoing.acknowledged);
        interval_bytes_ += static_cast<int64_t>(length_of(begun, outgoing.acknowledged));
      }
      ++outgoing.acknowledged;
      outgoing.next = std::max(outgoing.next, outgoing.acknowledged);
      if (outgoing.acknowledged == begun.end()) outgoing.begun.pop_front();
    }
  }
  const Nanos elapsed = now - interval_begin_;
  // While nothing was under way, there is nothing to measure.
  if (!busy || interval_bytes_ == 0 || elapsed < std::max(kIntervalMin, round_trip_)) return;
  rates_.push_back(static_cast<double>(interval_bytes_) / elapsed.seconds());
  if (rates_.size() > kRates) rates_.pop_front();
  interval_begin_ = now;
  interval_bytes_ = 0;
}

void Link::rewind(const Positions& received) {
  for (size_t at = 0; at < outgoing_.size(); ++at) {
    Outgoing& outgoing = outgoing_[at];
    for (const Begun& begun : outgoing.begun) {
      // An old greeting may say less than was acknowledged since.
      for (uint64_t sequence = std::max({begun.first, received[at], outgoing.acknowledged});
           sequence < std::min(begun.end(), outgoing.next); ++sequence) {
        unacknowledged_ -= cost_of(begun, sequence);
      }
    }
    outgoing.next = std::max(outgoing.acknowledged, std::min(outgoing.next, received[at]));
  }
}

bool Link::drained() const {
  return std::ranges::all_of(outgoing_, [](const Outgoing& outgoing) {
    return outgoing.waiting.empty() && outgoing.begun.empty();
  });
}

}  // namespace leeway::zmq
