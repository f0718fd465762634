// Programs that end as soon as they are started.
#include "fleet/children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "../../support/temporary_folder.h"
#include "drivers/threads/wall_clock.h"

namespace leeway {
namespace {

using testing::HasSubstr;

// Every look at it is minutes later.
class HastyClock final : public Clock {
 public:
  Nanos now() const override { return {now_ += 300'000'000'000}; }

 private:
  mutable std::atomic<int64_t> now_ = 0;
};

class ChildrenTest : public testing::Test {
 protected:
  // One child that does this.
  ChildrenOptions options(const std::string& script) {
    return {.program = "/bin/sh",
            .words = {{"-c", script}},
            .folder = place_.path(),
            .clock = clock_,
            .ended = [this](const std::string&) { ++ends_; }};
  }
  bool wait_for(const std::function<bool()>& condition) const {
    const threads::WallClock clock;
    const Nanos limit = clock.now() + Nanos{300'000'000'000};
    while (!condition() && clock.now() < limit) std::this_thread::yield();
    return condition();
  }

  TemporaryFolder place_;
  HastyClock clock_;
  std::atomic<int64_t> ends_ = 0;
};

// A model that does not fit may need minutes until that shows.
TEST_F(ChildrenTest, OneThatFailsLateIsGivenUpIfTheRunDoesNotGoOn) {
  Children children(options("echo no memory; exit 1"));
  children.start();
  ASSERT_TRUE(wait_for([&] { return children.failure().has_value(); }));
  EXPECT_THAT(children.failure()->message, HasSubstr("ended with status 1 3 times in a row"));
  EXPECT_THAT(children.failure()->message, HasSubstr("no memory"));
}

TEST_F(ChildrenTest, AMistakeIsGivenUpAtOnce) {
  Children children(options("exit 2"));
  children.start();
  ASSERT_TRUE(wait_for([&] { return children.failure().has_value(); }));
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(children.failure()->kind, ErrorKind::kUsage);
}

TEST_F(ChildrenTest, KillsAreSurvivedWhileTheRunGoesOn) {
  std::optional<Children> made;
  ChildrenOptions busy = options("kill -9 $$");
  busy.ended = [&](const std::string&) { made->note_updates(++ends_); };
  Children& children = made.emplace(std::move(busy));
  children.start();
  EXPECT_TRUE(wait_for([&] { return ends_ >= 20 || children.failure(); }));
  EXPECT_FALSE(children.failure()) << children.failure()->message;
}

TEST_F(ChildrenTest, KillsOfARunThatStandsStillAreNot) {
  Children children(options("kill -9 $$"));
  children.start();
  ASSERT_TRUE(wait_for([&] { return children.failure().has_value(); }));
  EXPECT_THAT(children.failure()->message, HasSubstr("signal 9 10 times in a row"));
}

}  // namespace
}  // namespace leeway
