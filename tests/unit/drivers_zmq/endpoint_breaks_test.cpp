// Endpoints whose connection passes a proxy that cuts it, and the ledger against bytes that passed.
#if LEEWAY_ZMQ
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../../support/endpoint_party.h"
#include "../../support/tcp_proxy.h"
#include "base/rng.h"

namespace leeway::zmq {
namespace {

class BrokenConnection : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Endpoints, BrokenConnection, testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Curve" : "Tcp"; });

void connect_through(const TcpProxy& proxy, Party& first, Party& second) {
  first.endpoint->set_peers({second.peer(false)});
  Peer peer = first.peer(true);
  peer.address = proxy.address();
  second.endpoint->set_peers({peer});
}

// A cut every 1 to 400,000 bytes; small ones hit the handshake and the greetings.
TEST_P(BrokenConnection, GoesOnWhereItWasAfterFiftyCuts) {
  constexpr uint64_t kSeed = 20;
  constexpr int kCuts = 50;
  constexpr int64_t kParcels = 400;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const RandomKey key = {.seed = kSeed, .stream = Stream::kJitter};
  uint64_t cut = 0;
  Party first(Party::options(0, GetParam()));
  Party second(Party::options(1, GetParam()));
  TcpProxy proxy(port_of(first.endpoint->address()), [&]() -> std::optional<size_t> {
    if (cut == kCuts) return std::nullopt;
    const uint64_t largest = random_bits(key, 2 * cut) % 3 == 0 ? 2000 : 400'000;
    return 1 + random_bits(key, 2 * cut++ + 1) % largest;
  });
  connect_through(proxy, first, second);
  std::map<ProcessId, std::vector<Taken>> sent;
  for (int64_t number = 0; number < kParcels; ++number) {
    for (Party* from : {&first, &second}) {
      const size_t bytes = random_bits(key, 1000 + static_cast<uint64_t>(number)) % 60'000;
      const Parcel parcel = numbered_parcel(number, bytes, TrafficClass::kPipeline);
      sent[from->id].push_back(taken_of(parcel));
      from->endpoint->send(from == &first ? second.id : first.id, parcel);
    }
  }
  ASSERT_TRUE(second.wait_for_parcels(first.id, kParcels));
  ASSERT_TRUE(first.wait_for_parcels(second.id, kParcels));
  second.endpoint->close();
  first.endpoint->close();
  EXPECT_EQ(second.told().received[first.id], sent[first.id]);
  EXPECT_EQ(first.told().received[second.id], sent[second.id]);
  EXPECT_EQ(proxy.cuts(), kCuts);
  EXPECT_GT(first.endpoint->counts().frames_repeated, 0);
  EXPECT_TRUE(first.told().forgotten.empty());
}

// What the endpoints count is what passes on the connection, greetings and ZeroMQ's framing
// included; only the handshake is left out.
TEST_P(BrokenConnection, TheLedgerIsRightWithinTwoPercent) {
  Party first(Party::options(0, GetParam()));
  Party second(Party::options(1, GetParam()));
  TcpProxy proxy(port_of(first.endpoint->address()), [] { return std::nullopt; });
  connect_through(proxy, first, second);
  for (int64_t number = 0; number < 20'000; ++number) second.send(first, number, 100);
  for (int64_t number = 0; number < 10; ++number) first.send(second, number, 400'000);
  ASSERT_TRUE(second.wait_for_parcels(first.id, 10));
  ASSERT_TRUE(first.wait_for_parcels(second.id, 20'000));
  second.endpoint->close();
  first.endpoint->close();
  const LinkCounts there = second.endpoint->counts();
  const LinkCounts back = first.endpoint->counts();
  const auto to_target = static_cast<double>(proxy.bytes_to_target());
  const auto from_target = static_cast<double>(proxy.bytes_from_target());
  EXPECT_NEAR(static_cast<double>(there.bytes_sent), to_target, 0.02 * to_target);
  EXPECT_NEAR(static_cast<double>(back.bytes_received), to_target, 0.02 * to_target);
  EXPECT_NEAR(static_cast<double>(back.bytes_sent), from_target, 0.02 * from_target);
  EXPECT_NEAR(static_cast<double>(there.bytes_received), from_target, 0.02 * from_target);
  EXPECT_EQ(there.parcels_sent, 20'000);
  EXPECT_EQ(back.parcels_received, 20'000);
}

}  // namespace
}  // namespace leeway::zmq
#endif
