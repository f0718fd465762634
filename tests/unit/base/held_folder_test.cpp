#include "base/held_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;

TEST(HeldFolder, HasOneHolderWhoIsNamed) {
  const TemporaryFolder folder;
  const Path path = folder / "run";
  EXPECT_FALSE(holder_of(path));
  {
    const auto held = HeldFolder::hold(path);
    ASSERT_TRUE(held.ok()) << held.error().message;
    const auto again = HeldFolder::hold(path);
    ASSERT_FALSE(again.ok());
    const std::string who = "process " + std::to_string(::getpid()) + " on ";
    EXPECT_NE(again.error().message.find("is in use by " + who), std::string::npos);
    EXPECT_NE(again.error().message.find(" since "), std::string::npos);
    ASSERT_TRUE(holder_of(path));
    EXPECT_TRUE(holder_of(path)->starts_with(who));
  }
  EXPECT_FALSE(holder_of(path));
  EXPECT_FALSE(fs::exists(path / kLockFile));
  EXPECT_TRUE(HeldFolder::hold(path).ok());
}

TEST(HeldFolder, ADeadHolderHoldsNothing) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = HeldFolder::hold(folder / "run");
    ::_exit(held.ok() ? 0 : 1);  // without destructors, as if it were killed
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(folder / "run" / kLockFile));
  EXPECT_FALSE(holder_of(folder / "run"));
  EXPECT_TRUE(HeldFolder::hold(folder / "run").ok());
}

TEST(HeldFolder, PathsFollowARenamedFolderAndNotItsName) {
  const TemporaryFolder folder;
  const auto held = HeldFolder::hold(folder / "run");
  ASSERT_TRUE(held.ok());
  fs::rename(folder / "run", folder / "old");
  fs::create_directory(folder / "run");
  ASSERT_TRUE(write_atomically(held->at("note"), "x").ok());
  EXPECT_TRUE(fs::exists(folder / "old" / "note"));
  EXPECT_FALSE(fs::exists(folder / "run" / "note"));
  EXPECT_EQ(named_path(held->at("note")), fs::canonical(folder / "old") / "note");
  EXPECT_TRUE(HeldFolder::hold(folder / "run").ok());
  EXPECT_FALSE(HeldFolder::hold(folder / "old").ok());
}

TEST(HeldFolder, NoticesThatItIsRemoved) {
  const TemporaryFolder folder;
  const auto held = HeldFolder::hold(folder / "run");
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(held->check_present().ok());
  ASSERT_TRUE(remove_tree(folder / "run").ok());
  EXPECT_FALSE(held->check_present().ok());
  EXPECT_FALSE(write_atomically(held->at("note"), "x").ok());
}

TEST(HeldFolder, KnowsTheFreeSpace) {
  const TemporaryFolder folder;
  const auto held = HeldFolder::hold(folder / "run");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(held->free_bytes() / (1 << 30), fs::space(folder / "run").available / (1 << 30));
}

}  // namespace
}  // namespace leeway
