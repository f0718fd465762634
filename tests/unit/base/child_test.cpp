#include "base/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(Child, OutputAndStatusComeBack) {
  const TemporaryFolder folder;
  const Path log = folder.path() / "log";
  auto child = Child::start("/bin/sh", {"sh", "-c", "echo out; echo err >&2; exit 3"}, log);
  ASSERT_TRUE(child.ok()) << child.error().message;
  const Child::End end = end_of(*child);
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(*read_text(log), "out\nerr\n");
  EXPECT_EQ(child->ended()->status, 3);  // asked again
}

TEST(Child, EndsWhenAsked) {
  const TemporaryFolder folder;
  auto child = Child::start("/bin/cat", {"cat", "/dev/zero"}, "/dev/null");
  ASSERT_TRUE(child.ok()) << child.error().message;
  EXPECT_FALSE(child->ended());
  child->ask_to_end();
  EXPECT_EQ(end_of(*child).signal, SIGTERM);
}

TEST(Child, IsKilledByItsDestructor) {
  auto child = Child::start("/bin/cat", {"cat", "/dev/zero"}, "/dev/null");
  ASSERT_TRUE(child.ok());
  Child other = std::move(*child);  // destroyed with this scope
  EXPECT_FALSE(other.ended());
}

TEST(Child, IsKilledWithItsParent) {
  int ends[2];  // the write end stays open while either process lives
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto child = Child::start("/bin/cat", {"cat", "/dev/zero"}, "/dev/null");
    if (child.ok()) ::raise(SIGKILL);
    ::_exit(1);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFSIGNALED(status));
  pollfd closed{.fd = ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&closed, 1, static_cast<int>(kLong.count / 1'000'000)), 1);
  ::close(ends[0]);
}

TEST(Child, AMissingProgramIsAnError) {
  const auto child = Child::start("/nowhere/program", {"program"}, "/dev/null");
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().message.find("cannot start /nowhere/program"), std::string::npos);
}

}  // namespace
}  // namespace leeway
