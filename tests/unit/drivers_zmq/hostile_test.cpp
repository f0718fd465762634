// What others may send to an endpoint's port: frames of a peer that does not keep to the protocol,
// and bytes that are nothing at all.
#if LEEWAY_ZMQ
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <zmq.hpp>

#include "../../support/endpoint_party.h"
#include "../../support/tcp_proxy.h"
#include "base/rng.h"

namespace leeway::zmq {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr ProcessId kRaw = {1};

// A process that a test speaks for, frame by frame.
class RawPeer {
 public:
  // With keys: the other end's public key, and its own.
  explicit RawPeer(const std::string& address, const std::string& expected_key = "",
                   const KeyPair& keys = {}) {
    if (!expected_key.empty()) {
      socket_.set(::zmq::sockopt::curve_serverkey, expected_key);
      socket_.set(::zmq::sockopt::curve_publickey, keys.public_key);
      socket_.set(::zmq::sockopt::curve_secretkey, keys.secret_key);
    }
    socket_.set(::zmq::sockopt::linger, 0);
    socket_.connect(address);
  }
  void send(std::span<const std::byte> header, std::span<const std::byte> fragment) {
    const auto more = fragment.empty() ? ::zmq::send_flags::none : ::zmq::send_flags::sndmore;
    socket_.send(::zmq::buffer(header.data(), header.size()), more);
    if (!fragment.empty()) {
      socket_.send(::zmq::buffer(fragment.data(), fragment.size()), ::zmq::send_flags::none);
    }
  }
  void send(const OutgoingFrame& frame) {
    send(std::as_bytes(std::span(&frame.header, 1)), frame.fragment());
  }
  void send_text(const std::vector<std::string>& parts) {
    for (size_t at = 0; at < parts.size(); ++at) {
      const bool last = at + 1 == parts.size();
      socket_.send(::zmq::buffer(parts[at]),
                   last ? ::zmq::send_flags::none : ::zmq::send_flags::sndmore);
    }
  }
  OutgoingFrame hello() { return link.greeting(FrameKind::kHello, now()); }
  OutgoingFrame data(int64_t number, size_t bytes = 10) {
    link.put(numbered_parcel(number, bytes, TrafficClass::kPipeline));
    return *link.next(now());
  }
  // The next frame of this kind; the link takes all that come before it.
  bool hears(FrameKind kind, int within_ms = 60'000) {
    socket_.set(::zmq::sockopt::rcvtimeo, within_ms);
    while (true) {
      ::zmq::message_t part;
      if (!socket_.recv(part)) return false;
      std::vector<std::byte> header(part.size());
      std::memcpy(header.data(), part.data(), part.size());
      std::vector<std::byte> fragment;
      if (part.more() && socket_.recv(part)) {
        fragment.assign(part.data<std::byte>(), part.data<std::byte>() + part.size());
      }
      const Result<FrameHeader> opened = open_frame(header, fragment);
      if (!opened.ok()) return false;
      if (opened->kind != FrameKind::kUnknown && !link.take(*opened, fragment, now()).ok()) {
        return false;
      }
      if (opened->kind == kind) return true;
    }
  }
  static Nanos now() { return threads::WallClock().now(); }

  Link link{{.self = kRaw, .generation = 77}};

 private:
  ::zmq::context_t context_;
  ::zmq::socket_t socket_{context_, ::zmq::socket_type::dealer};
};

// An endpoint with a well-behaved peer, which must not notice anything, and a raw one.
class Hostile : public testing::Test {
 protected:
  Hostile() : first_(quick(0)), second_(patient(2)) {
    first_.endpoint->set_peers({second_.peer(false)});
    second_.endpoint->set_peers({first_.peer(true)});
    EXPECT_TRUE(talk(first_, second_));
  }
  static EndpointOptions quick(int64_t self) {
    EndpointOptions options = Party::options(self, false);
    options.heartbeat = {100'000'000};
    return options;
  }
  // Other programs of this machine must not make it think that the first one is silent.
  static EndpointOptions patient(int64_t self) {
    EndpointOptions options = Party::options(self, false);
    options.silent_beats = 40;
    return options;
  }
  bool wait_for_refusals(size_t count) {
    return first_.wait_for([&](const auto& told) { return told.refused.size() >= count; });
  }
  // From now on it counts as silent if nothing is heard of it.
  void know_raw() {
    first_.endpoint->set_peers({second_.peer(false), {.id = kRaw}});
    first_.settle();
  }
  void greet(RawPeer& raw) {
    know_raw();
    raw.send(raw.hello());
    ASSERT_TRUE(raw.hears(FrameKind::kWelcome));
  }
  std::string address() const { return first_.endpoint->address(); }

  Party first_;
  Party second_;
};

TEST_F(Hostile, AFrameThatIsSentTwiceArrivesOnce) {
  RawPeer raw(address());
  greet(raw);
  const OutgoingFrame recorded = raw.data(1);
  for (int time = 0; time < 3; ++time) raw.send(recorded);
  raw.send(raw.data(2));
  ASSERT_TRUE(first_.wait_for_parcels(kRaw, 2));
  EXPECT_EQ(first_.told().received[kRaw].size(), 2u);
  EXPECT_EQ(first_.told().received[kRaw].back().number, 2);
  EXPECT_TRUE(talk(first_, second_));
}

TEST_F(Hostile, DamagedFramesAreRefusedWithAReason) {
  RawPeer raw(address());
  greet(raw);
  OutgoingFrame frame = raw.data(1, 1000);
  const auto header = std::as_bytes(std::span(&frame.header, 1));
  raw.send(header.first(header.size() - 1), frame.fragment());
  raw.send(header, frame.fragment().first(999));
  raw.send(header, {});
  raw.send_text({"a", "b", "c"});
  raw.send_text({""});
  OutgoingFrame liar = frame;
  liar.header.received = {5, 0, 0};
  seal(liar.header, liar.fragment());
  raw.send(liar);
  ASSERT_TRUE(wait_for_refusals(6));
  EXPECT_THAT(first_.told().refused, Each(HasSubstr("refused from 127.0.0.1: ")));
  EXPECT_THAT(first_.told().refused[0], HasSubstr("a header of another size"));
  EXPECT_THAT(first_.told().refused[1], HasSubstr("a frame is damaged"));
  EXPECT_THAT(first_.told().refused[2], HasSubstr("a frame is damaged"));
  EXPECT_THAT(first_.told().refused[3], HasSubstr("more parts than a frame has"));
  EXPECT_THAT(first_.told().refused[4], HasSubstr("a header of another size"));
  EXPECT_THAT(first_.told().refused[5], HasSubstr("acknowledges what was not sent"));
  raw.send(frame);
  EXPECT_TRUE(first_.wait_for_parcels(kRaw, 1)) << "the link has not suffered";
  EXPECT_TRUE(talk(first_, second_));
}

// ZeroMQ ends the connection; the dealer makes a new one.
TEST_F(Hostile, APartThatIsTooLargeCostsItsSenderTheConnection) {
  RawPeer raw(address());
  greet(raw);
  raw.send_text({std::string(2 * kFragmentBytes, 'x')});
  bool welcome = false;
  for (int attempt = 0; attempt < 600 && !welcome; ++attempt) {
    raw.send(raw.hello());  // the first ones are lost with the old connection
    welcome = raw.hears(FrameKind::kWelcome, 100);
  }
  ASSERT_TRUE(welcome);
  raw.send(raw.data(1));
  EXPECT_TRUE(first_.wait_for_parcels(kRaw, 1));
  EXPECT_TRUE(talk(first_, second_));
  EXPECT_EQ(first_.told().received[kRaw].size(), 1u);
}

TEST_F(Hostile, RandomMessagesAreRefusedAndCounted) {
  constexpr uint64_t kSeed = 31;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const RandomKey key = {.seed = kSeed, .stream = Stream::kJitter};
  uint64_t counter = 0;
  RawPeer raw(address());
  for (int message = 0; message < 200; ++message) {
    std::vector<std::string> parts(1 + random_bits(key, counter++) % 5);
    for (std::string& part : parts) {
      const uint64_t sizes[] = {0, 1, sizeof(FrameHeader), 3000};
      part.resize(sizes[random_bits(key, counter++) % 4]);
      for (char& byte : part) byte = static_cast<char>(random_bits(key, counter++));
    }
    raw.send_text(parts);
  }
  ASSERT_TRUE(wait_for_refusals(200));
  EXPECT_EQ(first_.told().refused.size(), 200u);
  greet(raw);
  EXPECT_TRUE(talk(first_, second_));
}

TEST_F(Hostile, RandomBytesOnThePortDisturbNobody) {
  constexpr uint64_t kSeed = 32;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const RandomKey key = {.seed = kSeed, .stream = Stream::kJitter};
  uint64_t counter = 0;
  for (int connection = 0; connection < 200; ++connection) {
    std::string bytes(1 + random_bits(key, counter++) % 400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_bits(key, counter++));
    // Half of them begin as a connection of ZeroMQ does.
    if (connection % 2 == 0) bytes = std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11) + bytes;
    const int descriptor = dial_loopback(port_of(address()));
    EXPECT_GT(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    ::close(descriptor);
  }
  ASSERT_TRUE(wait_for_refusals(100));
  EXPECT_TRUE(talk(first_, second_));
  EXPECT_TRUE(second_.told().silent.empty());
}

// The first version had no handshake: any bytes are such a connection.
TEST_F(Hostile, TheFirstVersionOfZeroMqsProtocolIsNotSpoken) {
  const int descriptor = dial_loopback(port_of(address()));
  const std::string name_and_message("\x01\0\x06\0hello", 9);
  EXPECT_EQ(::send(descriptor, name_and_message.data(), 9, MSG_NOSIGNAL), 9);
  const timeval minute = {.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
  std::array<char, 256> answer = {};
  ssize_t size = 1;
  while (size > 0) size = ::recv(descriptor, answer.data(), answer.size(), 0);
  EXPECT_TRUE(size == 0 || errno == ECONNRESET) << "the connection is closed";
  ::close(descriptor);
  EXPECT_TRUE(talk(first_, second_));
  EXPECT_THAT(first_.told().refused, testing::IsEmpty()) << "nothing of it has arrived";
}

TEST_F(Hostile, OneThatStopsIsSilentAndIsHeardAgain) {
  RawPeer raw(address());
  greet(raw);
  const auto is_raw = [](const auto& of) { return of.contains(kRaw); };
  ASSERT_TRUE(first_.wait_for([&](const auto& told) { return is_raw(told.silent); }));
  raw.send(raw.data(1));
  ASSERT_TRUE(first_.wait_for([&](const auto& told) { return is_raw(told.heard_again); }));
  ASSERT_TRUE(first_.wait_for([&](const auto& told) { return told.silent.at(kRaw) >= 2; }));
  EXPECT_TRUE(second_.told().silent.empty());
}

TEST_F(Hostile, OneThatWasForgottenHearsItWhateverItSays) {
  RawPeer raw(address());
  greet(raw);
  first_.endpoint->forget(kRaw);
  first_.settle();
  raw.send(raw.hello());
  EXPECT_TRUE(raw.hears(FrameKind::kUnknown));
  raw.send(raw.data(1));
  EXPECT_TRUE(raw.hears(FrameKind::kUnknown));
  EXPECT_TRUE(first_.told().received[kRaw].empty());
}

// A greeting that was on its way on a connection that broke must not take the route away.
TEST_F(Hostile, AGreetingThatComesLateChangesNothing) {
  RawPeer old(address());
  const OutgoingFrame late = old.hello();
  RawPeer raw(address());
  greet(raw);
  raw.send(raw.data(1));
  ASSERT_TRUE(first_.wait_for_parcels(kRaw, 1));
  old.send(late);
  old.send_text({"it was taken"});
  ASSERT_TRUE(wait_for_refusals(1));
  raw.send(raw.data(2));
  ASSERT_TRUE(first_.wait_for_parcels(kRaw, 2));
  while (!raw.link.drained()) ASSERT_TRUE(raw.hears(FrameKind::kBeat));
}

// The endpoint has lost the route, and the other end, which still has a connection, cannot know.
TEST_F(Hostile, OneThatGoesOnAfterItsRouteWasLostIsAnsweredAgain) {
  RawPeer raw(address());
  greet(raw);
  {
    RawPeer other(address());
    greet(other);  // takes the route, and is gone
  }
  const auto is_raw = [](const auto& of) { return of.contains(kRaw); };
  ASSERT_TRUE(first_.wait_for([&](const auto& told) { return is_raw(told.silent); }));
  raw.send(raw.data(1));
  ASSERT_TRUE(raw.hears(FrameKind::kWelcome));
  EXPECT_TRUE(first_.wait_for_parcels(kRaw, 1));
}

// The door has asked for the key long ago, when the connection was made.
TEST(HostileVisitor, OneWhoseKeyWasRevokedCannotIntroduceItselfAgain) {
  std::atomic<bool> allowed = true;
  EndpointOptions options = Party::options(0, true);
  options.takes_visitors = true;
  options.allows = [&](const std::string&) { return allowed.load(); };
  Party host(std::move(options));
  RawPeer raw(host.endpoint->address(), host.keys->public_key, new_key_pair().value());
  raw.send(raw.hello());
  ASSERT_TRUE(raw.hears(FrameKind::kWelcome));
  allowed = false;
  host.endpoint->forget(kRaw);
  host.settle();
  raw.send(raw.hello());
  ASSERT_TRUE(raw.hears(FrameKind::kUnknown));
  raw.link = Link({.self = {9}, .generation = 78});
  raw.send(raw.hello());
  ASSERT_TRUE(host.wait_for([](const auto& told) { return !told.refused.empty(); }));
  EXPECT_EQ(host.told().refused.front(), "refused from 127.0.0.1: its key is not let in any more");
  EXPECT_FALSE(host.endpoint->visitor({9}).has_value());
}

// The dialer's ZeroMQ gives up the socket when it is sent what it cannot read.
TEST(HostileListener, APartThatIsTooLargeMakesTheDialerDialAgain) {
  ::zmq::context_t context;
  ::zmq::socket_t router(context, ::zmq::socket_type::router);
  router.set(::zmq::sockopt::linger, 0);
  router.set(::zmq::sockopt::rcvtimeo, 60'000);
  router.bind("tcp://127.0.0.1:*");
  Party dialer(Party::options(1, false));
  dialer.endpoint->set_peers(
      {{.id = {0}, .address = router.get(::zmq::sockopt::last_endpoint), .dial = true}});
  std::set<std::string> connections;
  while (connections.size() < 3) {
    ::zmq::message_t connection;
    ASSERT_TRUE(router.recv(connection)) << "after " << connections.size() << " connections";
    const bool is_new = connections.insert(connection.to_string()).second;
    ::zmq::message_t frame;
    ASSERT_TRUE(router.recv(frame));
    if (!is_new) continue;
    router.send(connection, ::zmq::send_flags::sndmore);
    router.send(::zmq::message_t(2 * kFragmentBytes), ::zmq::send_flags::none);
  }
  router.close();
}

}  // namespace
}  // namespace leeway::zmq
#endif
