#include "drivers/zmq/link.h"

#include <gtest/gtest.h>

#include <string>

#include "../../support/two_links.h"

namespace leeway::zmq {
namespace {

constexpr TrafficClass kControl = TrafficClass::kControl;
constexpr TrafficClass kPipeline = TrafficClass::kPipeline;
constexpr TrafficClass kAveraging = TrafficClass::kAveraging;
constexpr Nanos kMinute = {60'000'000'000};
constexpr Nanos kSecond = {1'000'000'000};

void put(TwoLinks& two, Parcel parcel) { two.ends[0].link.put(std::move(parcel)); }

TEST(Link, CutsParcelsOfEverySizeAndPutsThemTogetherAgain) {
  TwoLinks two({}, {.latency = {1'000'000}});
  std::vector<Taken> sent;
  for (const size_t bytes : {0, 1, 262'143, 262'144, 262'145, 524'288, 20'000'000, 0, 7}) {
    Parcel parcel = numbered_parcel(static_cast<int64_t>(sent.size()), bytes, kPipeline);
    parcel.kind = bytes % 2 == 0 ? Parcel::Kind::kFleet : Parcel::Kind::kMesh;
    sent.push_back(taken_of(parcel));
    put(two, std::move(parcel));
  }
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(two.ends[1].taken[kPipeline], sent);
  EXPECT_EQ(two.ends[0].link.counts().parcels_sent, 9);
  EXPECT_EQ(two.ends[1].link.counts().parcels_received, 9);
  EXPECT_EQ(two.ends[0].link.counts().frames_repeated, 0);
  EXPECT_EQ(two.ends[0].link.unacknowledged_bytes(), 0);
}

TEST(Link, NoFrameIsLargerThanAFragmentAndEveryByteLeavesOnce) {
  TwoLinks two({}, {});
  size_t frames = 0;
  uint64_t bytes = 0;
  two.on_frame = [&](size_t from, const OutgoingFrame& frame) {
    if (from != 0 || frame.header.kind != FrameKind::kData) return;
    EXPECT_LE(frame.header.length, kFragmentBytes);
    EXPECT_EQ(frame.header.offset, bytes);
    bytes += frame.header.length;
    ++frames;
  };
  put(two, numbered_parcel(1, 262'145, kPipeline));
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(frames, 2u);
  EXPECT_EQ(bytes, 262'145u);
}

TEST(Link, EachClassKeepsItsOrderAndControlOvertakes) {
  TwoLinks two({}, {.latency = {5'000'000}, .bytes_per_second = 1e7});
  std::map<TrafficClass, std::vector<Taken>> sent;
  for (int64_t number = 0; number < 60; ++number) {
    const auto traffic = static_cast<TrafficClass>(number % kTrafficClasses);
    Parcel parcel = numbered_parcel(number, static_cast<size_t>(number) * 9'000, traffic);
    sent[traffic].push_back(taken_of(parcel));
    put(two, std::move(parcel));
  }
  std::vector<uint8_t> order;
  two.on_frame = [&](size_t from, const OutgoingFrame& frame) {
    const bool is_data = frame.header.kind == FrameKind::kData;
    if (from == 0 && is_data) order.push_back(frame.header.traffic);
  };
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(two.ends[1].taken, sent);
  const auto first_other = std::ranges::find_if(order, [](uint8_t each) { return each != 0; });
  EXPECT_EQ(std::count(first_other, order.end(), 0), 0) << "control leaves before all others";
}

TEST(Link, ControlWaitsForNoWindow) {
  TwoLinks two({}, {.latency = kSecond});
  put(two, numbered_parcel(1, 50'000'000, kPipeline));
  two.pump(0);
  EXPECT_EQ(two.ends[0].link.unacknowledged_bytes(), 512 << 10);
  EXPECT_EQ(two.ends[0].link.next(two.now), std::nullopt) << "the window is full";
  put(two, numbered_parcel(2, 1000, kControl));
  const std::optional<OutgoingFrame> frame = two.ends[0].link.next(two.now);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->header.traffic, static_cast<uint8_t>(kControl));
}

// Bytes of averaging among the first `frames` frames.
double averaging_share(TwoLinks& two, int frames) {
  int64_t averaging = 0;
  int64_t all = 0;
  int count = 0;
  two.on_frame = [&](size_t from, const OutgoingFrame& frame) {
    if (from != 0 || frame.header.kind != FrameKind::kData || count++ >= frames) return;
    all += frame.bytes;
    if (frame.header.traffic == static_cast<uint8_t>(kAveraging)) averaging += frame.bytes;
  };
  while (count < frames) two.step();
  two.on_frame = {};
  return static_cast<double>(averaging) / static_cast<double>(all);
}

TEST(Link, AveragingGetsATenthWhileThePipelineIsSaturated) {
  TwoLinks two({}, {.latency = {1'000'000}, .bytes_per_second = 1e8});
  put(two, numbered_parcel(1, 200'000'000, kPipeline));
  put(two, numbered_parcel(2, 50'000'000, kAveraging));
  const double share = averaging_share(two, 300);
  EXPECT_GE(share, 0.0999);
  EXPECT_LE(share, 0.101);
}

TEST(Link, AveragingGetsATenthInSmallParcelsToo) {
  TwoLinks two({}, {.latency = {1'000'000}, .bytes_per_second = 1e8});
  put(two, numbered_parcel(1, 200'000'000, kPipeline));
  for (int64_t number = 0; number < 3000; ++number) {
    put(two, numbered_parcel(number, 4000, kAveraging));
  }
  EXPECT_NEAR(averaging_share(two, 1500), 0.1, 0.005);
}

// What it got while the line was its own does not count against it later.
TEST(Link, AveragingThatHadTheLineForItselfStillGetsItsTenth) {
  TwoLinks two({}, {.latency = {1'000'000}, .bytes_per_second = 1e8});
  put(two, numbered_parcel(1, 200'000'000, kAveraging));
  EXPECT_EQ(averaging_share(two, 200), 1);
  put(two, numbered_parcel(2, 200'000'000, kPipeline));
  EXPECT_GE(averaging_share(two, 200), 0.0999);
}

TEST(Link, AveragingHasTheLineWhenNobodyElseWantsIt) {
  TwoLinks two({}, {});
  put(two, numbered_parcel(1, 20'000'000, kAveraging));
  EXPECT_EQ(averaging_share(two, 70), 1);
}

TEST(Link, TheWindowNeverHasMoreThanItsSizeUnderWay) {
  TwoLinks two({}, {.latency = {40'000'000}, .bytes_per_second = 12.5e6, .jitter = {3'000'000}});
  put(two, numbered_parcel(1, 60'000'000, kPipeline));
  put(two, numbered_parcel(2, 20'000'000, kAveraging));
  while (!two.drained()) {
    const int64_t window_before = two.ends[0].link.window_bytes();
    const int64_t before = two.ends[0].link.unacknowledged_bytes();
    two.pump(0);
    EXPECT_LE(two.ends[0].link.unacknowledged_bytes(), std::max(before, window_before));
    two.step();
  }
  const Link& link = two.ends[0].link;
  EXPECT_LE(static_cast<double>(two.ends[0].window_max),
            1.5 * 1.15 * 12.5e6 * (link.round_trip().seconds() + 0.003));
}

TEST(Link, AWindowHoldsFewSmallFramesOnly) {
  TwoLinks two({}, {.latency = kSecond});
  for (int64_t number = 0; number < 10'000; ++number)
    put(two, numbered_parcel(number, 0, kPipeline));
  two.pump(0);
  EXPECT_LE(two.ends[0].flying.size() * sizeof(FrameHeader), size_t{512} << 10);
  EXPECT_GT(two.ends[0].flying.size(), 4000u);
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_EQ(two.ends[1].taken[kPipeline].size(), 10'000u);
}

// 12.5 MB/s and 80 ms there and back: 1 MB is under way when the line is full.
TEST(Link, TheWindowGrowsUntilALongLineIsFull) {
  constexpr double kRate = 12.5e6;
  TwoLinks two({}, {.latency = {40'000'000}, .bytes_per_second = kRate});
  put(two, numbered_parcel(1, 100'000'000, kPipeline));
  const Nanos begin = two.now;
  ASSERT_TRUE(two.run_until_drained(kMinute));
  const double throughput = 100e6 / (two.now - begin).seconds();
  EXPECT_GE(throughput, 0.9 * kRate);
  EXPECT_GE(two.ends[0].link.round_trip().seconds(), 0.08);
  EXPECT_LE(two.ends[0].link.round_trip().seconds(), 0.102);  // with the frame's own 21 ms
  const double product = kRate * two.ends[0].link.round_trip().seconds();
  EXPECT_NEAR(static_cast<double>(two.ends[0].window_max), 1.5 * product, 0.2 * product);
}

// On a line without latency everything that is under way is acknowledged at once: there is a rate
// all the same, and the window follows it.
TEST(Link, TheRateOfAShortLineIsMeasuredToo) {
  constexpr double kRate = 1.25e9;
  TwoLinks two({}, {.latency = {1'000}, .bytes_per_second = kRate});
  put(two, numbered_parcel(1, 100'000'000, kPipeline));
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_NEAR(two.ends[0].link.bytes_per_second(), kRate, 0.2 * kRate);
  EXPECT_GT(two.ends[0].window_max, int64_t{768} << 10);
  EXPECT_LT(static_cast<double>(two.ends[0].window_max), 1.5 * 1.2 * kRate * 0.0005);
}

TEST(Link, TimeWithNothingUnderWayDoesNotCountForTheRate) {
  constexpr double kRate = 12.5e6;
  TwoLinks two({}, {.latency = {10'000'000}, .bytes_per_second = kRate});
  for (int64_t number = 0; number < 20; ++number) {
    put(two, numbered_parcel(number, 1'000'000, kPipeline));
    ASSERT_TRUE(two.run_until_drained(kMinute));
    for (const Nanos idle = two.now; two.now - idle < kSecond;) two.step();  // signs of life
  }
  EXPECT_GE(two.ends[0].link.bytes_per_second(), 0.6 * kRate);
  EXPECT_LE(two.ends[0].link.bytes_per_second(), 1.2 * kRate);
}

TEST(Link, BothDirectionsOfALongLineAreFilledAtOnce) {
  constexpr double kRate = 12.5e6;
  TwoLinks two({}, {.latency = {80'000'000}, .bytes_per_second = kRate});
  put(two, numbered_parcel(1, 100'000'000, kPipeline));
  two.ends[1].link.put(numbered_parcel(1, 100'000'000, kPipeline));
  const Nanos begin = two.now;
  ASSERT_TRUE(two.run_until_drained(kMinute));
  EXPECT_GE(100e6 / (two.now - begin).seconds(), 0.88 * kRate);
}

// A greeting goes past the emulated line: its time must not stand for the line's.
TEST(Link, AGreetingDoesNotCountAsARoundTrip) {
  TwoLinks two({}, {.latency = {100'000'000}});
  while (two.ends[0].link.round_trip().count == 0 || two.ends[1].link.round_trip().count == 0) {
    two.step();
  }
  EXPECT_EQ(two.ends[0].link.round_trip(), Nanos{200'000'000});
  EXPECT_EQ(two.ends[1].link.round_trip(), Nanos{200'000'000});
}

TEST(Link, ANewerParcelOfASlotReplacesOneThatWaitsButNotOneThatHasBegun) {
  TwoLinks two({}, {.latency = kSecond});
  const auto with_slot = [](int64_t number, uint64_t slot) {
    Parcel parcel = numbered_parcel(number, 400'000, kAveraging);
    parcel.slot = slot;
    return parcel;
  };
  put(two, with_slot(0, 5));
  two.pump(0);  // 0 has begun
  for (int64_t number = 1; number < 4; ++number) put(two, with_slot(number, 5));
  put(two, with_slot(4, 6));
  put(two, numbered_parcel(5, 10, kAveraging));
  put(two, numbered_parcel(6, 10, kAveraging));
  Parcel other_class = numbered_parcel(7, 10, kPipeline);
  other_class.slot = 5;
  put(two, std::move(other_class));
  ASSERT_TRUE(two.run_until_drained(kMinute));
  std::vector<int64_t> numbers;
  for (const Taken& taken : two.ends[1].taken[kAveraging]) numbers.push_back(taken.number);
  EXPECT_EQ(numbers, (std::vector<int64_t>{0, 3, 4, 5, 6}));
  EXPECT_EQ(two.ends[1].taken[kPipeline].size(), 1u);
  EXPECT_EQ(two.ends[0].link.counts().parcels_replaced, 2);
}

// Whoever begins parcels without end would fill the memory of the other side.
TEST(Link, WhatIsUnassembledIsLimitedForAllClassesTogether) {
  Link sender({.self = {0}, .generation = 100});
  Link receiver({.self = {1}, .generation = 101, .unassembled_bytes_max = 1'000'000});
  ASSERT_TRUE(take_frame(receiver, sender.greeting(FrameKind::kHello, kSecond), kSecond).ok());
  ASSERT_TRUE(take_frame(sender, receiver.greeting(FrameKind::kWelcome, kSecond), kSecond).ok());
  sender.put(numbered_parcel(1, 700'000, kAveraging));
  ASSERT_TRUE(take_frame(receiver, *sender.next(kSecond), kSecond).ok());
  sender.put(numbered_parcel(2, 300'001, kPipeline));
  const auto refused = take_frame(receiver, *sender.next(kSecond), kSecond);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "a parcel that is larger than its sender may send now");
  // When the first one is there, the other one is sent again and has room.
  std::vector<int64_t> taken;
  for (Nanos now = kSecond; taken.size() < 2 && now < kMinute; now = now + kSecond) {
    while (const auto frame = sender.next(now)) {
      const auto parcel = take_frame(receiver, *frame, now);
      if (parcel.ok() && *parcel) taken.push_back((*parcel)->session);
    }
    while (const auto frame = receiver.next(now)) {
      ASSERT_TRUE(take_frame(sender, *frame, now).ok());
    }
  }
  EXPECT_EQ(taken, (std::vector<int64_t>{1, 2}));
}

TEST(Link, AcknowledgesASmallFrameWithWhatGoesTheOtherWay) {
  TwoLinks two({}, {});
  put(two, numbered_parcel(1, 1000, kPipeline));
  const std::optional<OutgoingFrame> small = two.ends[0].link.next(two.now);
  Link& other = two.ends[1].link;
  ASSERT_TRUE(take_frame(other, *small, two.now).ok());
  EXPECT_EQ(other.next(two.now), std::nullopt) << "something may go there soon";
  const Nanos by = other.speaks_by();
  EXPECT_LE(by, two.now + Nanos{20'000'000});
  Link silent = other;
  ASSERT_TRUE(silent.next(by).has_value()) << "nothing has";
  other.put(numbered_parcel(2, 1000, kPipeline));
  const std::optional<OutgoingFrame> answer = other.next(two.now);
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(take_frame(two.ends[0].link, *answer, two.now).ok());
  EXPECT_TRUE(two.ends[0].link.drained());
  EXPECT_EQ(other.next(by), std::nullopt) << "it is said";
}

TEST(Link, AcknowledgesHalfAWindowAtOnce) {
  TwoLinks two({}, {});
  put(two, numbered_parcel(1, kFragmentBytes, kAveraging));
  ASSERT_TRUE(take_frame(two.ends[1].link, *two.ends[0].link.next(two.now), two.now).ok());
  EXPECT_TRUE(two.ends[1].link.next(two.now).has_value());
}

TEST(Link, SaysThatItLivesWhenItHasNothingElseToSay) {
  Link link({.self = {1}, .beat = {500'000'000}});
  ASSERT_TRUE(link.next(kSecond).has_value());
  EXPECT_EQ(link.next({1'499'999'999}), std::nullopt);
  EXPECT_EQ(link.speaks_by(), Nanos{1'500'000'000});
  const std::optional<OutgoingFrame> beat = link.next({1'500'000'000});
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->header.kind, FrameKind::kBeat);
  EXPECT_TRUE(beat->fragment().empty());
}

}  // namespace
}  // namespace leeway::zmq
