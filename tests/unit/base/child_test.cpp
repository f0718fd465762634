#include "base/child.h"

#include <gtest/gtest.h>

#include <csignal>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

constexpr Nanos kLong{20'000'000'000};

Child::End end_of(Child& child) {
  for (;;) {
    if (const auto end = child.ended()) return *end;
    Child::wait({&child}, kLong);
  }
}

TEST(Child, WordsAndStatusComeBack) {
  const TemporaryFolder folder;
  const Path log = folder.path() / "log";
  auto child = Child::start({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, log);
  ASSERT_TRUE(child.ok()) << child.error().message;
  const Child::End end = end_of(*child);
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(*read_text(log), "out\nerr\n");
  EXPECT_EQ(child->ended()->status, 3);  // asked again
}

TEST(Child, EndsWhenAsked) {
  const TemporaryFolder folder;
  auto child = Child::start({"/bin/cat", "/dev/zero"}, "/dev/null");
  ASSERT_TRUE(child.ok()) << child.error().message;
  EXPECT_FALSE(child->ended());
  child->ask_to_end();
  EXPECT_EQ(end_of(*child).signal, SIGTERM);
}

TEST(Child, OneThatIsForgottenIsKilled) {
  auto child = Child::start({"/bin/cat", "/dev/zero"}, "/dev/null");
  ASSERT_TRUE(child.ok());
  Child other = std::move(*child);  // its end is this scope's
  EXPECT_FALSE(other.ended());
}

TEST(Child, AProgramThatIsNotThereIsAnError) {
  const auto child = Child::start({"/nowhere/program"}, "/dev/null");
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().message.find("cannot start /nowhere/program"), std::string::npos);
}

}  // namespace
}  // namespace leeway
