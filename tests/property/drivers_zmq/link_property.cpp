// Random parcels over a link whose connection breaks at random moments. What was on its way is lost
// then, greetings included.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "../../support/two_links.h"

namespace leeway::zmq {
namespace {

constexpr Nanos kHour = Nanos{3'600'000'000'000};

LinkOptions any_link() {
  return {.fragment_bytes = *rc::gen::inRange<size_t>(1, 300),
          .window_bytes_min = *rc::gen::inRange<int64_t>(1, 3000)};
}

LineOptions any_line() {
  return {.latency = {*rc::gen::inRange<int64_t>(0, 50'000'000)},
          .bytes_per_second = *rc::gen::element(0.0, 1e4, 1e6),
          .jitter = {*rc::gen::inRange<int64_t>(0, 20'000'000)},
          .loss = *rc::gen::element(0.0, 0.1),
          .seed = *rc::gen::arbitrary<uint64_t>()};
}

Parcel any_parcel(int64_t number) {
  const auto traffic = static_cast<TrafficClass>(*rc::gen::inRange(0, kTrafficClasses));
  Parcel parcel = numbered_parcel(number, *rc::gen::inRange<size_t>(0, 2000), traffic);
  parcel.kind = static_cast<Parcel::Kind>(*rc::gen::inRange(0, kParcelKinds));
  return parcel;
}

// The connection is new, but may break again before the other end has heard of it.
void break_connection(TwoLinks& two) {
  for (auto& end : two.ends) end.flying.clear();
  const OutgoingFrame hello = two.ends[0].link.greeting(FrameKind::kHello, two.now);
  if (*rc::gen::arbitrary<bool>()) {
    RC_ASSERT(take_frame(two.ends[1].link, hello, two.now).ok());
  }
  two.ends[1].link.greeting(FrameKind::kWelcome, two.now);
}

RC_GTEST_PROP(Link, EverythingArrivesOnceAndInTheOrderOfItsClass, ()) {
  TwoLinks two(any_link(), any_line(), any_line());
  std::array<TakenByClass, 2> sent;
  const int64_t rounds = *rc::gen::inRange<int64_t>(1, 60);
  for (int64_t round = 0; round < rounds; ++round) {
    const auto from = *rc::gen::inRange<size_t>(0, 2);
    Parcel parcel = any_parcel(round);
    sent[from][parcel.traffic].push_back(taken_of(parcel));
    two.ends[from].link.put(std::move(parcel));
    for (int steps = *rc::gen::inRange(0, 12); steps > 0; --steps) two.step();
    if (*rc::gen::inRange(0, 8) == 0) {
      for (int breaks = *rc::gen::inRange(0, 3); breaks > 0; --breaks) break_connection(two);
      two.greet();
    }
  }
  RC_ASSERT(two.run_until_drained(kHour));
  for (size_t at = 0; at < 2; ++at) {
    RC_ASSERT(two.ends[1 - at].taken == sent[at]);
    RC_ASSERT(two.ends[at].link.unacknowledged_bytes() == 0);
    const LinkCounts& counts = two.ends[at].link.counts();
    RC_ASSERT(counts.parcels_sent == two.ends[1 - at].link.counts().parcels_received);
  }
}

// A parcel's buffer belongs to the link, and to frames that are on their way, and to nobody else.
RC_GTEST_PROP(Link, NothingIsKeptOnceItIsAcknowledged, ()) {
  TwoLinks two(any_link(), any_line());
  std::vector<std::weak_ptr<const std::vector<std::byte>>> buffers;
  two.on_frame = [&](size_t, const OutgoingFrame& frame) {
    if (frame.buffer) buffers.emplace_back(frame.buffer);
  };
  const int64_t parcels = *rc::gen::inRange<int64_t>(1, 20);
  for (int64_t number = 0; number < parcels; ++number) {
    two.ends[0].link.put(any_parcel(number));
    for (int steps = *rc::gen::inRange(0, 12); steps > 0; --steps) two.step();
    if (*rc::gen::inRange(0, 5) == 0) two.greet();
  }
  RC_ASSERT(two.run_until_drained(kHour));
  for (auto& end : two.ends) end.flying.clear();
  RC_ASSERT(!buffers.empty());
  for (const auto& buffer : buffers) RC_ASSERT(buffer.expired());
}

// The newest of every slot arrives, those of a slot in order, and what has no slot without a gap.
RC_GTEST_PROP(Link, SlotsLoseOnlyWhatANewerOneReplaces, ()) {
  TwoLinks two(any_link(), any_line());
  std::map<uint64_t, std::vector<int64_t>> sent;
  std::vector<uint64_t> slot_of;
  const int64_t parcels = *rc::gen::inRange<int64_t>(1, 60);
  for (int64_t number = 0; number < parcels; ++number) {
    Parcel parcel =
        numbered_parcel(number, *rc::gen::inRange<size_t>(0, 1500), TrafficClass::kAveraging);
    parcel.slot = *rc::gen::inRange<uint64_t>(0, 4);
    slot_of.push_back(parcel.slot);
    sent[parcel.slot].push_back(number);
    two.ends[0].link.put(std::move(parcel));
    for (int steps = *rc::gen::inRange(0, 4); steps > 0; --steps) two.step();
    if (*rc::gen::inRange(0, 8) == 0) two.greet();
  }
  RC_ASSERT(two.run_until_drained(kHour));
  std::map<uint64_t, std::vector<int64_t>> taken;
  for (const Taken& each : two.ends[1].taken[TrafficClass::kAveraging]) {
    taken[slot_of[static_cast<size_t>(each.number)]].push_back(each.number);
  }
  for (const auto& [slot, numbers] : sent) {
    if (slot == 0) RC_ASSERT(taken[slot] == numbers);
    RC_ASSERT(!taken[slot].empty());
    RC_ASSERT(taken[slot].back() == numbers.back());
    RC_ASSERT(std::ranges::is_sorted(taken[slot], std::less_equal<>()));
  }
  const auto replaced = two.ends[0].link.counts().parcels_replaced;
  const auto arrived = two.ends[1].taken[TrafficClass::kAveraging].size();
  RC_ASSERT(static_cast<int64_t>(arrived) + replaced == parcels);
}

}  // namespace
}  // namespace leeway::zmq
