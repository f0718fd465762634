// Endpoints on loopback: who is let in, who is known, and what an endpoint says about it.
#if LEEWAY_ZMQ
#include "drivers/zmq/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/endpoint_party.h"

namespace leeway::zmq {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr bool kPlain = false;
constexpr bool kCurve = true;

class EndpointCase : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Endpoints, EndpointCase, testing::Values(kPlain, kCurve),
                         [](const auto& each) { return each.param ? "Curve" : "Tcp"; });

// With CURVE the door refuses its key, and ZeroMQ would not try again.
TEST_P(EndpointCase, OneThatDialsBeforeItIsKnownGetsThroughOnceItIs) {
  Party first(Party::options(0, GetParam()));
  Party second(Party::options(1, GetParam()));
  second.endpoint->set_peers({first.peer(true)});
  if (GetParam()) {
    ASSERT_TRUE(second.wait_for([&](const auto& told) { return told.key_refused.size() == 1; }));
    ASSERT_TRUE(first.wait_for([&](const auto& told) { return told.refused.size() >= 2; }))
        << "it has dialed again";
    EXPECT_THAT(first.told().refused, Contains(HasSubstr("127.0.0.1: the key ")));
  }
  first.endpoint->set_peers({second.peer(false)});
  EXPECT_TRUE(talk(first, second));
  EXPECT_EQ(second.told().key_refused.size(), GetParam() ? 1u : 0u) << "it says so once";
}

TEST_P(EndpointCase, AFormerPeerIsForgottenAndItsFramesAreDropped) {
  Party first(Party::options(0, GetParam()));
  Party second(Party::options(1, GetParam()));
  connect(first, second);
  ASSERT_TRUE(talk(first, second));
  first.endpoint->set_peers({});
  first.settle();
  second.send(first, 3);
  ASSERT_TRUE(second.wait_for([](const auto& told) { return !told.forgotten.empty(); }));
  EXPECT_EQ(first.told().received[second.id].size(), 1u);
  // It comes back to a process that has forgotten it: that is another link, and it is told again.
  first.endpoint->set_peers({second.peer(false)});
  first.settle();
  second.send(first, 4);
  second.endpoint->close();
  EXPECT_EQ(first.told().received[second.id].size(), 1u);
  EXPECT_EQ(second.told().forgotten[first.id], 1);
}

TEST_P(EndpointCase, CloseDeliversWhatWasSentRightBefore) {
  Party first(Party::options(0, GetParam()));
  Party second(Party::options(1, GetParam()));
  connect(first, second);
  for (int64_t number = 0; number < 200; ++number) second.send(first, number, 40'000);
  second.endpoint->close();
  EXPECT_EQ(first.told().received[second.id].size(), 200u);
}

// Else the other one waits until this one counts as silent.
TEST_P(EndpointCase, OneThatClosesHasAcknowledgedWhatItGot) {
  const auto patient = [](int64_t self) {
    EndpointOptions options = Party::options(self, GetParam());
    options.heartbeat = {1'000'000'000};
    return options;
  };
  Party first(patient(0));
  Party second(patient(1));
  connect(first, second);
  ASSERT_TRUE(talk(first, second));
  second.send(first, 3);
  ASSERT_TRUE(first.wait_for_parcels(second.id, 2));
  first.endpoint->close();
  second.endpoint->close();
  EXPECT_TRUE(second.told().silent.empty());
}

// Of a host that lets anybody in.
EndpointOptions open_house(bool encrypted) {
  EndpointOptions options = Party::options(0, encrypted);
  options.takes_visitors = true;
  options.allows = [](const std::string&) { return true; };
  return options;
}

TEST_P(EndpointCase, AVisitorIsKnownByItsKeyAndHost) {
  Party host(open_house(GetParam()));
  Party visitor(Party::options(7, GetParam()));
  visitor.endpoint->set_peers({host.peer(true)});
  visitor.send(host, 1);
  ASSERT_TRUE(host.wait_for_parcels(visitor.id, 1));
  const auto known = host.endpoint->visitor(visitor.id);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->host, "127.0.0.1");
  EXPECT_EQ(known->key, GetParam() ? visitor.keys->public_key : "");
  host.endpoint->forget(visitor.id);
  ASSERT_TRUE(visitor.wait_for([](const auto& told) { return !told.forgotten.empty(); }));
  EXPECT_FALSE(host.endpoint->visitor(visitor.id).has_value());
}

// It has a key, but no part in the run: a note that it would like to join is small.
TEST_P(EndpointCase, AVisitorsParcelsAreSmallUntilItIsAPeer) {
  Party host(open_house(GetParam()));
  Party visitor(Party::options(7, GetParam()));
  visitor.endpoint->set_peers({host.peer(true)});
  visitor.send(host, 1, (1 << 20) + 1);
  ASSERT_TRUE(host.wait_for([](const auto& told) { return !told.refused.empty(); }));
  EXPECT_THAT(host.told().refused.front(), HasSubstr("larger than its sender may send now"));
  visitor.endpoint->send(host.id, numbered_parcel(2, 1 << 20, TrafficClass::kControl));
  ASSERT_TRUE(host.wait_for_parcels(visitor.id, 1));
  EXPECT_EQ(host.told().received[visitor.id].front().number, 2);
  host.endpoint->set_peers({visitor.peer(false)});
  ASSERT_TRUE(host.wait_for_parcels(visitor.id, 2));
  EXPECT_EQ(host.told().received[visitor.id].back().number, 1);
}

// Its signs of life are rarer than the other one expects.
TEST_P(EndpointCase, OneThatSaysNothingIsSilentUntilItIsHeardAgain) {
  EndpointOptions quick = Party::options(0, GetParam());
  quick.heartbeat = {20'000'000};
  Party first(std::move(quick));
  EndpointOptions slow = Party::options(1, GetParam());
  slow.heartbeat = {1'000'000'000};  // the first one waits for 80 ms
  Party second(std::move(slow));
  connect(first, second);
  ASSERT_TRUE(first.wait_for([](const auto& told) { return !told.silent.empty(); }));
  second.send(first, 1);
  ASSERT_TRUE(first.wait_for([](const auto& told) { return !told.heard_again.empty(); }));
}

TEST(Endpoint, AKeyThatIsNotAllowedIsRefusedAndOthersAreNotDisturbed) {
  Party first(Party::options(0, kCurve));
  Party second(Party::options(1, kCurve));
  Party stranger(Party::options(2, kCurve));
  connect(first, second);
  ASSERT_TRUE(talk(first, second));
  stranger.endpoint->set_peers({first.peer(true)});
  ASSERT_TRUE(stranger.wait_for([](const auto& told) { return !told.key_refused.empty(); }));
  EXPECT_TRUE(talk(first, second));
  EXPECT_THAT(first.told().received[stranger.id], IsEmpty());
}

TEST(Endpoint, OneThatExpectsAnotherKeyDoesNotConnectAndSaysWhy) {
  Party first(Party::options(0, kCurve));
  Party second(Party::options(1, kCurve));
  Peer wrong = first.peer(true);
  wrong.key = new_key_pair().value().public_key;
  first.endpoint->set_peers({second.peer(false)});
  second.endpoint->set_peers({wrong});
  ASSERT_TRUE(second.wait_for([](const auto& told) { return !told.unreachable.empty(); }));
  EXPECT_TRUE(second.told().closes_early_first) << "the likely cause is said first";
  EXPECT_EQ(second.told().closes_early[first.id], 1) << "once";
  EXPECT_THAT(first.told().refused, Contains(HasSubstr("for another key")));
}

TEST(Endpoint, PlainTextAndCurveDoNotMix) {
  Party curve(Party::options(0, kCurve));
  Party plain(Party::options(1, kPlain));
  curve.endpoint->set_peers({plain.peer(false)});
  plain.endpoint->set_peers({curve.peer(true)});
  EXPECT_TRUE(plain.wait_for([](const auto& told) { return !told.key_refused.empty(); }));
  EXPECT_TRUE(curve.wait_for([](const auto& told) { return !told.refused.empty(); }));
  Party other(Party::options(2, kPlain));
  Party dialer(Party::options(3, kCurve));
  other.endpoint->set_peers({dialer.peer(false)});
  Peer peer = other.peer(true);
  peer.key = new_key_pair().value().public_key;
  dialer.endpoint->set_peers({peer});
  EXPECT_TRUE(dialer.wait_for([](const auto& told) { return !told.key_refused.empty(); }));
  EXPECT_THAT(other.told().received, IsEmpty());
}

TEST(Endpoint, AVisitorThatClaimsTheIdOfAnotherIsRefused) {
  Party first(Party::options(0, kCurve));
  Party second(Party::options(1, kCurve));
  Party third(Party::options(2, kCurve));
  first.endpoint->set_peers({second.peer(false), third.peer(false)});
  first.settle();
  second.endpoint->set_peers({first.peer(true)});
  ASSERT_TRUE(talk(first, second));
  EndpointOptions options = Party::options(1, kCurve);
  options.keys = third.keys;  // it is let in, but is not process 1
  Party impostor(std::move(options));
  impostor.endpoint->set_peers({first.peer(true)});
  impostor.send(first, 99);
  ASSERT_TRUE(first.wait_for([](const auto& told) { return !told.refused.empty(); }));
  EXPECT_THAT(first.told().refused.front(), HasSubstr("a frame of process 1 with another key"));
  EXPECT_TRUE(talk(first, second));
  const Party::Told told = first.told();
  for (const Taken& taken : told.received.at({1})) EXPECT_NE(taken.number, 99);
}

TEST(Endpoint, APortThatIsInUseIsOneSentence) {
  Party first(Party::options(0, kPlain));
  EndpointOptions options = Party::options(1, kPlain);
  options.listen = first.endpoint->address();
  const auto second = Endpoint::open(std::move(options));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "cannot listen at " + first.endpoint->address() +
                                        ": Address already in use; choose another address or port");
}

// One that dials in vain is dialed by the other one in the end: it has to hear that this helped.
TEST(Endpoint, OneThatCouldNotBeReachedAndThenIsCountsAsHeardAgain) {
  EndpointOptions options = Party::options(0, kPlain);
  options.heartbeat = {60'000'000'000};  // nobody is silent
  Party first(std::move(options));
  Party second(Party::options(1, kPlain));
  Peer wrong = second.peer(true);
  wrong.address = "nonsense";
  first.endpoint->set_peers({wrong});
  ASSERT_TRUE(first.wait_for([](const auto& told) { return !told.unreachable.empty(); }));
  EXPECT_TRUE(first.told().heard_again.empty());
  connect(first, second);
  EXPECT_TRUE(first.wait_for([](const auto& told) { return told.heard_again.contains({1}); }));
  EXPECT_TRUE(first.told().silent.empty());
}

// A short heartbeat is no excuse for never noticing that somebody is gone.
TEST(Endpoint, WithAShortHeartbeatTooOneThatIsGoneIsSilent) {
  EndpointOptions options = Party::options(1, kPlain);
  options.heartbeat = {20'000'000};
  Party second(std::move(options));
  {
    Party first(Party::options(0, kPlain));
    connect(first, second);
    ASSERT_TRUE(talk(first, second));
  }
  EXPECT_TRUE(second.wait_for([](const auto& told) { return told.silent.contains({0}); }));
}

TEST(Endpoint, AHostThatNobodyKnowsIsUnreachableAtOnceAndSaidOnce) {
  Party first(Party::options(0, kPlain));
  int64_t id = 0;
  // A real name server may take seconds to say no.
  const auto knows_no_names = [](const std::string& address, size_t attempt) {
    const bool is_name = address.find(".invalid") != std::string::npos;
    return is_name ? Result<std::string>(Error{"cannot dial " + address + ": nobody knows it"})
                   : resolved(address, attempt);
  };
  for (const char* address : {"tcp://no-such-host.invalid:5555", "nonsense", "tcp://127.0.0.1:x"}) {
    EndpointOptions options = Party::options(++id, kPlain);
    options.resolve = knows_no_names;
    Party second(std::move(options));
    second.endpoint->set_peers({first.peer(false), {.id = {9}, .address = address, .dial = true}});
    first.endpoint->set_peers({second.peer(true)});
    ASSERT_TRUE(second.wait_for([](const auto& told) { return !told.unreachable.empty(); }));
    const Party::Told told = second.told();
    EXPECT_EQ(told.unreachable.at({9}), 1) << address;
    ASSERT_EQ(told.refused.size(), 1u) << address;
    EXPECT_THAT(told.refused.front(), HasSubstr(std::string("cannot dial ") + address));
    EXPECT_TRUE(talk(first, second)) << address;
  }
}

TEST(Endpoint, AddressesLookAsTheyWereGiven) {
  const auto address_of = [](const char* listen) {
    EndpointOptions options = Party::options(0, kPlain);
    options.listen = listen;
    return Party(std::move(options)).endpoint->address();
  };
  EXPECT_THAT(address_of("tcp://127.0.0.1:*"), testing::StartsWith("tcp://127.0.0.1:"));
  EXPECT_THAT(address_of("tcp://0.0.0.0:*"), testing::StartsWith("tcp://0.0.0.0:"));
  EXPECT_THAT(address_of(""), IsEmpty());
}

// Over IPv6's sockets, which a process that listens everywhere has.
TEST(Endpoint, OneThatListensEverywhereIsReachedByIpv4AndSeesThatHost) {
  EndpointOptions options = Party::options(0, kPlain);
  options.listen = "tcp://*:*";
  options.takes_visitors = true;
  Party host(std::move(options));
  Party visitor(Party::options(3, kPlain));
  const std::string everywhere = host.endpoint->address();
  visitor.endpoint->set_peers(
      {{.id = {0},
        .address = "tcp://localhost" + everywhere.substr(everywhere.rfind(':')),
        .dial = true}});
  visitor.send(host, 1);
  ASSERT_TRUE(host.wait_for_parcels(visitor.id, 1));
  EXPECT_THAT(host.endpoint->visitor(visitor.id)->host, testing::AnyOf("127.0.0.1", "::1"));
}

}  // namespace
}  // namespace leeway::zmq
#endif
