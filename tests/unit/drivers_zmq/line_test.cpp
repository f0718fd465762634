#include "drivers/zmq/line.h"

#include <gtest/gtest.h>

#include "drivers/sim/links.h"

namespace leeway::zmq {
namespace {

constexpr Nanos kMillisecond = {1'000'000};

TEST(Line, WithoutLimitsAFrameIsThereAtOnce) {
  Line line({});
  EXPECT_FALSE(LineOptions{}.is_slow());
  EXPECT_EQ(line.send(1'000'000, {5}), Nanos{5});
  EXPECT_EQ(line.free_at(), Nanos{5});
}

TEST(Line, AnyLimitMakesItSlow) {
  EXPECT_TRUE(LineOptions{.latency = {1}}.is_slow());
  EXPECT_TRUE(LineOptions{.bytes_per_second = 1}.is_slow());
  EXPECT_TRUE(LineOptions{.jitter = {1}}.is_slow());
  EXPECT_TRUE(LineOptions{.loss = 0.1}.is_slow());
}

TEST(Line, LatencyDelaysButDoesNotOccupy) {
  Line line({.latency = kMillisecond * 80});
  EXPECT_EQ(line.send(1000, {}), kMillisecond * 80);
  EXPECT_EQ(line.free_at(), Nanos{});
  EXPECT_EQ(line.send(1000, kMillisecond), kMillisecond * 81);
}

TEST(Line, BytesWaitForThoseBeforeThem) {
  Line line({.latency = kMillisecond * 10, .bytes_per_second = 1e6});
  EXPECT_EQ(line.send(2000, {}), kMillisecond * 12);
  EXPECT_EQ(line.free_at(), kMillisecond * 2);
  EXPECT_EQ(line.send(1000, kMillisecond), kMillisecond * 13);
  EXPECT_EQ(line.send(1000, kMillisecond * 50), kMillisecond * 61);  // it was free for long
}

TEST(Line, JitterStaysWithinItsBoundsAndKeepsTheOrder) {
  Line line({.latency = kMillisecond * 10, .jitter = kMillisecond * 5, .seed = 4});
  Nanos before = {};
  Nanos smallest = Nanos::max();
  Nanos largest = {};
  for (int64_t number = 0; number < 1000; ++number) {
    const Nanos now = kMillisecond * 20 * number;
    const Nanos arrival = line.send(100, now);
    EXPECT_GE(arrival, before);
    before = arrival;
    smallest = std::min(smallest, arrival - now);
    largest = std::max(largest, arrival - now);
  }
  EXPECT_GE(smallest, kMillisecond * 10);
  EXPECT_LE(largest, kMillisecond * 15);
  EXPECT_GT((largest - smallest).count, (kMillisecond * 4).count);  // it is not constant
}

TEST(Line, FramesThatLeaveTogetherArriveInOrderWhateverTheJitter) {
  Line line({.jitter = kMillisecond * 5, .loss = 0.2, .seed = 5});
  Nanos before = {};
  for (int number = 0; number < 1000; ++number) {
    const Nanos arrival = line.send(100, {});
    EXPECT_GE(arrival, before);
    before = arrival;
  }
}

// TCP sends again what was lost: nothing is missing, and some of it is late.
TEST(Line, LossIsADelayOfItsShareOfTheFrames) {
  Line line({.latency = kMillisecond * 10, .loss = 0.25, .seed = 6});
  int late = 0;
  for (int64_t number = 0; number < 2000; ++number) {
    const Nanos now = kMillisecond * 1000 * number;
    const Nanos travel = line.send(100, now) - now;
    if (travel == kMillisecond * 10) continue;
    EXPECT_EQ(travel, kMillisecond * (10 + 2 * 10 + 200));
    ++late;
  }
  EXPECT_NEAR(late, 500, 60);
}

TEST(Line, TheSameSeedGivesTheSameArrivals) {
  const LineOptions options = {.jitter = kMillisecond, .loss = 0.5, .seed = 7};
  Line first(options);
  Line second(options);
  for (int64_t number = 0; number < 100; ++number) {
    EXPECT_EQ(first.send(10, kMillisecond * number), second.send(10, kMillisecond * number));
  }
}

// A recipe that is simulated and one that is emulated mean the same.
TEST(Line, AgreesWithTheSimulatorsLinks) {
  for (const double rate : {0.0, 1e6, 12.5e6, 3333.0, 7e9}) {
    const Nanos latency = kMillisecond * 80;
    const Mesh mesh{.stages = 2, .replicas = 1};
    sim::Links links(mesh, {.all = {.latency = latency, .bytes_per_second = rate}});
    Line line({.latency = latency, .bytes_per_second = rate});
    for (int64_t number = 0; number < 50; ++number) {
      const int64_t bytes = number * number * 1237;
      const Nanos now = kMillisecond * 7 * number;
      EXPECT_EQ(line.send(bytes + sim::kHeaderBytes, now),
                links.send(mesh.id(0), mesh.id(1), bytes, now))
          << rate << " bytes a second, message " << number;
    }
  }
}

}  // namespace
}  // namespace leeway::zmq
