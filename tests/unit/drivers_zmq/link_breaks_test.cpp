// A link whose connection breaks, and frames that another end would not send.
#include <gtest/gtest.h>

#include <string>

#include "../../support/two_links.h"
#include "drivers/zmq/link.h"

namespace leeway::zmq {
namespace {

constexpr TrafficClass kPipeline = TrafficClass::kPipeline;
constexpr TrafficClass kAveraging = TrafficClass::kAveraging;
constexpr Nanos kMinute = {60'000'000'000};
constexpr Nanos kNow = {1'000'000'000};

// At every point of the exchange, in one run each.
TEST(BrokenLink, LosesAndDoublesNothingWhereverItBreaks) {
  const LinkOptions options = {.fragment_bytes = 1000, .window_bytes_min = 4000};
  for (int point = 0; point < 120; ++point) {
    TwoLinks two(options, {.latency = {1'000'000}, .bytes_per_second = 1e6});
    TakenByClass sent;
    for (int64_t number = 0; number < 12; ++number) {
      const auto traffic = static_cast<TrafficClass>(number % kTrafficClasses);
      const Parcel parcel = numbered_parcel(number, static_cast<size_t>(number) * 431, traffic);
      sent[traffic].push_back(taken_of(parcel));
      for (auto& end : two.ends) end.link.put(parcel);
    }
    for (int step = 0; step < point; ++step) two.step();
    two.greet();
    ASSERT_TRUE(two.run_until_drained(kMinute)) << "after " << point << " steps";
    for (auto& end : two.ends) {
      EXPECT_EQ(end.taken, sent) << "after " << point << " steps";
      EXPECT_EQ(end.link.unacknowledged_bytes(), 0) << "after " << point << " steps";
    }
  }
}

TEST(BrokenLink, GoesOnWithTheFrameThatTheOtherEndHasNot) {
  TwoLinks two({.fragment_bytes = 1000, .window_bytes_min = 100'000}, {});
  two.ends[0].link.put(numbered_parcel(1, 10'000, kPipeline));
  two.pump(0);
  ASSERT_EQ(two.ends[0].flying.size(), 10u);
  two.ends[0].flying.resize(3, {{}, {}});  // the others are lost
  two.step();
  std::vector<uint64_t> again;
  two.on_frame = [&](size_t from, const OutgoingFrame& frame) {
    if (from == 0 && frame.header.kind == FrameKind::kData) again.push_back(frame.header.sequence);
  };
  two.greet();
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(again, (std::vector<uint64_t>{3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(two.ends[0].link.counts().frames_repeated, 7);
  EXPECT_EQ(two.ends[1].taken[kPipeline].size(), 1u);
}

// Frames that are lost without a new greeting: the receiver notices, and asks for them.
TEST(BrokenLink, AGapIsAskedForAndFilled) {
  TwoLinks two({.fragment_bytes = 1000, .window_bytes_min = 100'000}, {.latency = {1'000'000}});
  two.ends[0].link.put(numbered_parcel(1, 10'000, kPipeline));
  two.pump(0);
  two.ends[0].flying.erase(two.ends[0].flying.begin() + 2);
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(two.ends[1].taken[kPipeline].size(), 1u);
  EXPECT_EQ(two.ends[0].link.counts().frames_repeated, 8);
}

TEST(BrokenLink, AGreetingThatIsOlderThanAnAcknowledgementChangesNothing) {
  TwoLinks two({.fragment_bytes = 1000, .window_bytes_min = 5000}, {.latency = {1'000'000}});
  const OutgoingFrame old = two.ends[1].link.greeting(FrameKind::kHello, two.now);
  two.ends[0].link.put(numbered_parcel(1, 20'000, kPipeline));
  while (two.ends[0].link.unacknowledged_bytes() == 0 || two.ends[1].link.heard_at() < two.now) {
    two.step();
  }
  for (int step = 0; step < 4; ++step) two.step();
  EXPECT_TRUE(two.ends[0].link.is_late(old.header));
  ASSERT_TRUE(take_frame(two.ends[0].link, old, two.now).ok());
  EXPECT_EQ(two.ends[0].link.unacknowledged_bytes(), 0) << "all of it leaves again";
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(two.ends[0].link.unacknowledged_bytes(), 0);
  EXPECT_EQ(two.ends[1].taken[kPipeline].size(), 1u);
}

TEST(BrokenLink, AFrameThatComesTwiceCountsOnce) {
  TwoLinks two({}, {});
  two.ends[0].link.put(numbered_parcel(1, 10, kAveraging));
  const std::optional<OutgoingFrame> frame = two.ends[0].link.next(two.now);
  ASSERT_TRUE(frame.has_value());
  EXPECT_TRUE((*take_frame(two.ends[1].link, *frame, two.now)).has_value());
  EXPECT_FALSE((*take_frame(two.ends[1].link, *frame, two.now)).has_value());
  EXPECT_EQ(two.ends[1].link.counts().parcels_received, 1);
}

class StrangeFrame : public testing::Test {
 protected:
  // A frame of the other end, which may be changed before it is sealed.
  static FrameHeader fragment_of(uint64_t sequence, uint64_t offset) {
    return {.kind = FrameKind::kData,
            .traffic = 1,
            .from = {1},
            .generation = 9,
            .session = 3,
            .sequence = sequence,
            .offset = offset,
            .parcel_bytes = 20,
            .length = 10};
  }
  std::string take(FrameHeader header) {
    const std::vector<std::byte> fragment(header.length);
    const auto taken = link_.take(header, fragment, kNow);
    return taken.ok() ? "" : taken.error().message;
  }
  Link link_{{.self = {0}, .generation = 4}};
};

TEST_F(StrangeFrame, AcknowledgingWhatWasNotSentIsAnError) {
  link_.put(numbered_parcel(1, 10, kPipeline));
  link_.put(numbered_parcel(2, 10, kPipeline));
  ASSERT_TRUE(link_.next(kNow).has_value());
  FrameHeader header = {.from = {1}, .generation = 9, .received = {0, 2, 0}};
  EXPECT_EQ(take(header), "a frame acknowledges what was not sent");
  EXPECT_GT(link_.unacknowledged_bytes(), 0) << "it changes nothing";
  header.received = {0, 1, 0};
  EXPECT_EQ(take(header), "");
  EXPECT_EQ(link_.unacknowledged_bytes(), 0);
  header.received = {0, 0, 1};
  EXPECT_EQ(take(header), "a frame acknowledges what was not sent");
}

TEST_F(StrangeFrame, AFragmentOfAnotherParcelIsAnError) {
  ASSERT_EQ(take(fragment_of(0, 0)), "");
  FrameHeader header = fragment_of(1, 10);
  header.parcel_bytes = 30;
  EXPECT_EQ(take(header), "a fragment is of another parcel");
  header = fragment_of(1, 10);
  header.session = 4;
  EXPECT_EQ(take(header), "a fragment is of another parcel");
  header = fragment_of(1, 10);
  header.parcel_kind = 1;
  EXPECT_EQ(take(header), "a fragment is of another parcel");
  EXPECT_EQ(take(fragment_of(1, 5)), "a fragment is not the next of its parcel");
  EXPECT_EQ(take(fragment_of(1, 0)), "a fragment is not the next of its parcel");
  EXPECT_EQ(link_.counts().parcels_received, 0);
  EXPECT_EQ(take(fragment_of(1, 10)), "");
  EXPECT_EQ(link_.counts().parcels_received, 1);
}

TEST_F(StrangeFrame, AFrameOfAnotherGenerationIsNotOfThisLink) {
  FrameHeader header = {.from = {1}, .generation = 9};
  EXPECT_TRUE(link_.is_mine(header)) << "nothing has been heard yet";
  header.peer_generation = 5;
  EXPECT_FALSE(link_.is_mine(header)) << "for an earlier process with this id";
  header.peer_generation = 4;
  EXPECT_TRUE(link_.is_mine(header));
  EXPECT_EQ(take(header), "");
  header.generation = 10;
  EXPECT_FALSE(link_.is_mine(header)) << "of a process that was started again";
  header.generation = 9;
  header.peer_generation = 0;
  EXPECT_TRUE(link_.is_mine(header));
}

}  // namespace
}  // namespace leeway::zmq
