#include "drivers/sim/links.h"

#include <gtest/gtest.h>

#include <set>

#include "sim_testing.h"

namespace leeway::sim {
namespace {

constexpr Mesh kMesh = {.stages = 3, .replicas = 1};
constexpr int64_t kPayload = 1000 - kHeaderBytes;  // 1000 bytes on the link

TEST(Links, AMessageTakesTheLatency) {
  Links links(kMesh, {.all = {.latency = {500}}});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {100}), Nanos{600});
  // Without a bandwidth limit, many messages travel at once.
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {100}), Nanos{600});
}

TEST(Links, MessagesQueueForTheBandwidth) {
  // 1000 bytes at 1e9 bytes per second: 1000 ns to send, then 500 ns of latency.
  Links links(kMesh, {.all = {.latency = {500}, .bytes_per_second = 1e9}});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {0}), Nanos{1500});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {10}), Nanos{2500});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {5000}), Nanos{6500});
  // A header alone takes time too, and fractions of a nanosecond round up.
  EXPECT_EQ(links.send(stage(0), stage(1), 0, {10'000}), Nanos{10'564});
}

TEST(Links, EachDirectionOfEachPairIsASeparateLink) {
  Links links(kMesh, {.all = {.bytes_per_second = 1e9}});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {0}), Nanos{1000});
  EXPECT_EQ(links.send(stage(1), stage(0), kPayload, {0}), Nanos{1000});
  EXPECT_EQ(links.send(stage(0), stage(2), kPayload, {0}), Nanos{1000});
}

TEST(Links, AnExceptionIsForOneDirectionOfOnePair) {
  Links links(kMesh, {.all = {.latency = {500}},
                      .exceptions = {{.from = stage(0), .to = stage(1), .options = {{7}, 0, {}}}}});
  EXPECT_EQ(links.send(stage(0), stage(1), kPayload, {0}), Nanos{7});
  EXPECT_EQ(links.send(stage(1), stage(0), kPayload, {0}), Nanos{500});
}

TEST(Links, JitterNeverLetsAMessageOvertake) {
  Links links(kMesh, {.seed = 3, .all = {.latency = {100}, .jitter = {1000}}});
  Nanos before;
  std::set<int64_t> delays;
  for (int64_t i = 0; i < 200; ++i) {
    const Nanos now = {10 * i};
    const Nanos arrival = links.send(stage(0), stage(1), 0, now);
    EXPECT_GE(arrival, before);
    EXPECT_GE(arrival, now + Nanos{100});
    before = arrival;
  }
  for (int64_t i = 0; i < 200; ++i) {  // far apart, so that each shows its own jitter
    const Nanos now = {1'000'000 * (i + 1)};
    const int64_t delay = (links.send(stage(0), stage(1), 0, now) - now).count;
    EXPECT_GE(delay, 100);
    EXPECT_LE(delay, 1100);
    delays.insert(delay);
  }
  EXPECT_GT(delays.size(), 150U);
}

TEST(Links, JitterIsAFunctionOfSeedPairAndNumber) {
  const auto trace = [](uint64_t seed, WorkerId from, WorkerId to, bool others) {
    Links links(kMesh, {.seed = seed, .all = {.jitter = kMillisecond}});
    std::vector<int64_t> arrivals;
    for (int64_t i = 0; i < 20; ++i) {
      if (others) links.send(stage(2), stage(0), 5, {i});
      arrivals.push_back(links.send(from, to, 0, i * 10 * kMillisecond).count);
    }
    return arrivals;
  };
  const auto first = trace(1, stage(0), stage(1), false);
  EXPECT_EQ(first, trace(1, stage(0), stage(1), true));
  EXPECT_NE(first, trace(2, stage(0), stage(1), false));
  EXPECT_NE(first, trace(1, stage(1), stage(0), false));
  EXPECT_NE(first, trace(1, stage(0), stage(2), false));
}

TEST(Links, CountWhatTheyCarry) {
  Links links(kMesh, {});
  links.send(stage(1), stage(0), 10, {0});
  links.send(stage(0), stage(2), 30, {0});
  links.send(stage(0), stage(1), 20, {0});
  links.send(stage(0), stage(1), 21, {0});
  const auto all = links.statistics();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].to, stage(1));
  EXPECT_EQ(all[0].messages, 2);
  EXPECT_EQ(all[0].payload_bytes, 41);
  EXPECT_EQ(all[1].to, stage(2));
  EXPECT_EQ(all[2].from, stage(1));
  EXPECT_EQ(all[2].payload_bytes, 10);
}

}  // namespace
}  // namespace leeway::sim
