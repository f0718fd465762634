// The server itself over loopback, for the sanitizers; tests/e2e covers everything else.
#include "dashboard/dashboard.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

class RealClock final : public Clock {
 public:
  Nanos now() const override {
    return {std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
  }
};

class StoppedClock final : public Clock {
 public:
  Nanos now() const override { return {}; }
};

class Client {
 public:
  // An empty path: sends only the beginning of a request.
  Client(const std::string& address, const std::string& path) {
    const size_t colon = address.rfind(':');
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (path.empty()) request = "GET / HT";
    EXPECT_EQ(::send(socket_, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Reads until this text or the end.
  std::string read(const std::string& until) {
    std::string text;
    char buffer[4096];
    while (until.empty() || text.find(until) == text.npos) {
      const ssize_t got = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
};

TEST(Dashboard, ServesReadersAndEndsWhileTheyRead) {
  const TemporaryFolder folder;
  const RealClock clock;
  auto opened = Dashboard::open({.port_option = "--dashboard"}, clock);
  if (!opened.ok() && opened.error().message.find("built without") != std::string::npos)
    GTEST_SKIP() << opened.error().message;
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  std::unique_ptr<Dashboard> dashboard = std::move(*opened);
  const std::string address = dashboard->address();
  EXPECT_THAT(Client(address, "/data.json").read(""), HasSubstr("has not begun yet"));
  dashboard->follow(folder.path(), RunWriter::kThisProgram);
  Client first(address, "/events");
  Client second(address, "/events");
  EXPECT_THAT(first.read("data: "), HasSubstr("text/event-stream"));
  EXPECT_THAT(second.read("data: "), HasSubstr("text/event-stream"));
  ASSERT_TRUE(write_atomically(folder / "config.toml", "[run]\n").ok());
  ASSERT_TRUE(write_atomically(folder / "events.jsonl",
                               "{\"event\":\"update\",\"update\":77,\"loss\":1.5}\n")
                  .ok());
  EXPECT_THAT(first.read("\"updates\":77"), HasSubstr("\"updates\":77"));
  EXPECT_THAT(Client(address, "/metrics").read(""), HasSubstr("leeway_updates_total 77"));
  dashboard.reset();
  EXPECT_THAT(first.read(""), HasSubstr("event: ended"));
  EXPECT_THAT(second.read(""), HasSubstr("event: ended"));
}

// Time stands still: a request of half a line is never too late, and if others had to wait for it
// they would wait for ever.
TEST(Dashboard, SlowClientsDoNotHoldUpOthers) {
  const StoppedClock clock;
  auto opened = Dashboard::open({.port_option = "--dashboard"}, clock);
  if (!opened.ok() && opened.error().message.find("built without") != std::string::npos)
    GTEST_SKIP() << opened.error().message;
  const std::string address = (*opened)->address();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 300; ++i) slow.push_back(std::make_unique<Client>(address, ""));
  EXPECT_THAT(Client(address, "/data.json").read(""), HasSubstr("has not begun yet"));
  EXPECT_EQ(slow.front()->read(""), "") << "the oldest had to go";
}

TEST(Dashboard, OtherMachinesNeedAToken) {
  const RealClock clock;
  const auto opened = Dashboard::open({.host = "0.0.0.0", .port_option = "--port"}, clock);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace leeway
