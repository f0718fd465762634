// Names that take long to resolve, while links to others are used.
#if LEEWAY_ZMQ
#include "drivers/zmq/name_lookups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "../../support/endpoint_party.h"

namespace leeway::zmq {
namespace {

using testing::IsEmpty;

// A name server that answers when the test says so.
struct SlowNames {
  std::latch asked{1};
  std::latch answers{1};
  std::string address;
};

NameLookups::Resolve slow(const std::shared_ptr<SlowNames>& names) {
  return [names](const std::string&, size_t) -> Result<std::string> {
    if (!names->asked.try_wait()) names->asked.count_down();
    names->answers.wait();
    return names->address;
  };
}

// Its signs of life keep coming, or the other one would take it for silent after 80 ms; and what it
// sends arrives.
TEST(NameLookups, ASlowNameKeepsNobodyWaiting) {
  const auto names = std::make_shared<SlowNames>();
  EndpointOptions quick = Party::options(0, /*encrypted=*/false);
  quick.heartbeat = {5'000'000'000};
  Party first(std::move(quick));
  Party third(Party::options(2, false));
  EndpointOptions options = Party::options(1, false);
  options.heartbeat = {5'000'000};
  options.resolve = slow(names);
  Party second(std::move(options));
  Peer named = third.peer(true);
  names->address = named.address;
  named.address = "tcp://slow.example:7070";
  first.endpoint->set_peers({second.peer(false)});
  third.endpoint->set_peers({second.peer(false)});
  second.endpoint->set_peers({named, first.peer(true)});
  names->asked.wait();
  for (int round = 0; round < 20; ++round) ASSERT_TRUE(talk(first, second));
  EXPECT_THAT(first.told().silent, IsEmpty());
  names->answers.count_down();
  EXPECT_TRUE(talk(third, second)) << "it is dialed once its name is known";
}

TEST(NameLookups, NobodyWaitsForANameAtTheEnd) {
  const auto names = std::make_shared<SlowNames>();
  EndpointOptions options = Party::options(1, false);
  options.resolve = slow(names);
  {
    Party party(std::move(options));
    party.endpoint->set_peers({{.id = {9}, .address = "tcp://slow.example:7070", .dial = true}});
    names->asked.wait();
  }
  names->answers.count_down();
}

TEST(NameLookups, APeerThatMovesIsDialedWhereItIs) {
  const auto names = std::make_shared<SlowNames>();
  Party first(Party::options(0, false));
  EndpointOptions options = Party::options(1, false);
  options.resolve = slow(names);
  Party second(std::move(options));
  Peer named = first.peer(true);
  named.address = "tcp://slow.example:7070";
  first.endpoint->set_peers({second.peer(false)});
  second.endpoint->set_peers({named});
  names->asked.wait();
  second.endpoint->set_peers({first.peer(true)});
  EXPECT_TRUE(talk(first, second));
  names->address = "tcp://127.0.0.1:1";  // where nobody is
  names->answers.count_down();
  EXPECT_TRUE(talk(first, second)) << "what its old name means is for nobody";
}

}  // namespace
}  // namespace leeway::zmq
#endif
