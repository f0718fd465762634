#include "drivers/zmq/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway::zmq {
namespace {

using testing::HasSubstr;

TEST(Address, HasAHost) {
  EXPECT_EQ(host_of("tcp://127.0.0.1:5555"), "127.0.0.1");
  EXPECT_EQ(host_of("tcp://[::1]:5555"), "::1");
  EXPECT_EQ(host_of("tcp://berlin.example:*"), "berlin.example");
  EXPECT_EQ(host_of("tcp://berlin"), "");
  EXPECT_EQ(host_of("berlin:5555"), "");
  EXPECT_EQ(host_of(""), "");
}

TEST(Address, AnIpv4AddressIsWrittenInOneWay) {
  EXPECT_EQ(readable_host("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(readable_host("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(readable_host("::ffff:0:1"), "::ffff:0:1");
  EXPECT_EQ(readable_host("2001:db8::1"), "2001:db8::1");
}

TEST(Address, NumbersStayAndNamesBecomeNumbers) {
  EXPECT_EQ(*resolved("tcp://127.0.0.1:5555", 0), "tcp://127.0.0.1:5555");
  EXPECT_EQ(*resolved("tcp://127.0.0.1:5555", 7), "tcp://127.0.0.1:5555");
  EXPECT_EQ(*resolved("tcp://[::1]:80", 0), "tcp://[::1]:80");
  EXPECT_THAT(*resolved("tcp://localhost:80", 0),
              testing::AnyOf("tcp://127.0.0.1:80", "tcp://[::1]:80"));
}

TEST(Address, OneThatIsNoneIsOneSentence) {
  EXPECT_EQ(resolved("berlin", 0).error().message,
            "cannot dial berlin: an address is tcp://HOST:PORT");
  EXPECT_THAT(resolved("tcp://no-such-host.invalid:1", 0).error().message,
              testing::AllOf(HasSubstr("the host no-such-host.invalid is not known ("),
                             HasSubstr("; is its name right?")));
}

TEST(Address, OfAllThatAMachineHasIsReadable) {
  EXPECT_EQ(readable_address("tcp://[::]:7070"), "tcp://*:7070");
  EXPECT_EQ(readable_address("tcp://0.0.0.0:7070"), "tcp://*:7070");
  EXPECT_EQ(readable_address("tcp://[::1]:7070"), "tcp://[::1]:7070");
  EXPECT_EQ(readable_address("tcp://192.0.2.1:7070"), "tcp://192.0.2.1:7070");
  EXPECT_EQ(readable_address(""), "");
}

TEST(Address, InNumbersHasNoNameToAskFor) {
  EXPECT_TRUE(is_numeric("192.0.2.1"));
  EXPECT_TRUE(is_numeric("2001:db8::1"));
  EXPECT_FALSE(is_numeric("berlin"));
  EXPECT_FALSE(is_numeric(""));
}

}  // namespace
}  // namespace leeway::zmq
