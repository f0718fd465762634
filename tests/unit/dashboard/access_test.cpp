#include "dashboard/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

TEST(Loopback, IsOnlyThisMachine) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "127.0.0.1.example", "127.example", "10.0.0.1",
                           "::", "localhost.example", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Host, MustBeANameOfTheServer) {
  for (const char* header : {"127.0.0.1:8080", "localhost:1", "localhost", "[::1]:8080", "[::1]"}) {
    EXPECT_TRUE(host_allowed(header, "127.0.0.1")) << header;
    EXPECT_TRUE(host_allowed(header, "10.0.0.7")) << header;
  }
  for (const char* header : {"", ":80", "evil.example", "evil.example:8080", "10.0.0.7:8080", "[",
                             "[::2]:80", "127.0.0.1.evil.example", "localhost:1:2"}) {
    EXPECT_FALSE(host_allowed(header, "127.0.0.1")) << header;
  }
  EXPECT_TRUE(host_allowed("10.0.0.7:8080", "10.0.0.7"));
  EXPECT_TRUE(host_allowed("Node7.Example:8080", "node7.example"));
  EXPECT_FALSE(host_allowed("node8.example", "node7.example"));
  // A server on all addresses needs a token, which a foreign page does not know.
  EXPECT_TRUE(host_allowed("any.example:1", "0.0.0.0"));
  EXPECT_TRUE(host_allowed("any.example:1", "::"));
  EXPECT_FALSE(host_allowed("", "0.0.0.0"));
}

TEST(Token, IsComparedToTheLastCharacter) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(same_token(token, token));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = 'x';
    EXPECT_FALSE(same_token(other, token));
    EXPECT_FALSE(same_token(token.substr(0, i), token));
  }
  EXPECT_FALSE(same_token(token + token, token));
  EXPECT_FALSE(same_token(token + "0", token));
  EXPECT_FALSE(same_token("", token));
}

TEST(Token, FollowsTheWordBearer) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer abc"), "abc");
  for (const char* header : {"", "Bearer", "Bearer ", "Basic abc", "abc"}) {
    EXPECT_EQ(bearer_token(header), "") << header;
  }
}

TEST(Token, IsReadFromAFile) {
  const TemporaryFolder folder;
  const Path file = folder / "token";
  ASSERT_TRUE(write_atomically(file, "0123456789-abc_DEF.~\n").ok());
  EXPECT_EQ(*read_token(file), "0123456789-abc_DEF.~");
  const std::string good(20, 'a');
  for (const std::string& text :
       {std::string(), std::string("short"), good + "\n" + good, good + " b", good + "&token=c",
        good + "\xc3\xa9", std::string(300, 'a')}) {
    ASSERT_TRUE(write_atomically(file, text).ok());
    const auto token = read_token(file);
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_EQ(token.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(token.error().message, HasSubstr("has no valid token"));
  }
  EXPECT_FALSE(read_token(folder / "none").ok());
}

}  // namespace
}  // namespace leeway
