#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(FileError, SaysWhatWhereWhyAndWhatToDo) {
  EXPECT_EQ(file_error("write", "out/a", ENOSPC).message,
            "cannot write out/a: No space left on device "
            "(free some space, or choose another place)");
  EXPECT_EQ(file_error("read", "a", EACCES).message,
            "cannot read a: Permission denied (check its permissions, or choose another place)");
  EXPECT_EQ(file_error("read", "a", EISDIR).message,
            "cannot read a: Is a directory (name a file, not a folder)");
  EXPECT_THAT(file_error("read", "a", EIO).message, HasSubstr("(try again"));
}

TEST(ReadText, ReadsBytesAsTheyAre) {
  const TemporaryFolder folder;
  const std::string text("a\0b\r\n\xff", 6);
  ASSERT_TRUE(write_atomically(folder / "a", text).ok());
  EXPECT_EQ(*read_text(folder / "a"), text);
}

TEST(ReadText, ReadsMoreThanOnePiece) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  ASSERT_TRUE(write_atomically(folder / "a", text).ok());
  EXPECT_EQ(*read_text(folder / "a"), text);
}

TEST(ReadText, AMissingFileOrAFolderIsAClearError) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_text("no/such").error().message,
            "cannot read no/such: No such file or directory (check the path)");
  EXPECT_THAT(read_text(folder.path()).error().message, HasSubstr("name a file, not a folder"));
}

TEST(ReadText, ReadsAPipe) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "words", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(*read_text("/proc/self/fd/" + std::to_string(ends[0])), "words");
  ::close(ends[0]);
}

TEST(WriteAtomically, ReplacesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "old and longer").ok());
  ASSERT_TRUE(write_atomically(folder / "a", "new").ok());
  EXPECT_EQ(*read_text(folder / "a"), "new");
  EXPECT_EQ(folder.entry_count(), 1u);
}

TEST(WriteAtomically, WorksInTheCurrentFolder) {
  const TemporaryFolder folder;
  const Path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Status status = write_atomically("plain-name", "x");
  std::filesystem::current_path(before);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(*read_text(folder / "plain-name"), "x");
}

TEST(WriteAtomically, FullDiskKeepsTheOldContent) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "old").ok());
  {
    const FileSizeLimit limit(1000);
    const Status status = write_atomically(folder / "a", std::string(5000, 'x'));
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message,
                HasSubstr("cannot write " + (folder / "a").string() + ": File too large"));
  }
  EXPECT_EQ(*read_text(folder / "a"), "old");
  EXPECT_EQ(folder.entry_count(), 1u);
}

TEST(WriteAtomically, AFolderAtTheTargetStaysAndNoTemporaryFileIsLeft) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / "a/b").ok());
  const Status status = write_atomically(folder / "a", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("name a file, not a folder"));
  EXPECT_EQ(folder.entry_count(), 1u);
}

TEST(WriteAtomically, AMissingFolderIsAClearError) {
  EXPECT_EQ(write_atomically("no/such/file", "x").error().message,
            "cannot write no/such/file: No such file or directory (check the path)");
}

TEST(AtomicFile, IsInvisibleUntilCommitted) {
  const TemporaryFolder folder;
  auto file = AtomicFile::create(folder / "a");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(as_bytes("0123")).ok());
  ASSERT_TRUE(file->write(as_bytes("4567")).ok());
  EXPECT_EQ(file->size(), 8u);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  ASSERT_TRUE(file->write_at(2, as_bytes("xx")).ok());
  ASSERT_TRUE(file->write(as_bytes("8")).ok());  // write_at() does not move the end
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(*read_text(folder / "a"), "01xx45678");
}

TEST(AtomicFile, DroppedWithoutCommitLeavesNothing) {
  const TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder / "a");
    ASSERT_TRUE(file->write(as_bytes("x")).ok());
    const AtomicFile moved = std::move(*file);
    EXPECT_EQ(folder.entry_count(), 1u);
  }
  EXPECT_EQ(folder.entry_count(), 0u);
}

TEST(AtomicFile, TwoWritersOfOneTargetDoNotMix) {
  const TemporaryFolder folder;
  auto first = AtomicFile::create(folder / "a");
  auto second = AtomicFile::create(folder / "a");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->write(as_bytes("first")).ok());
  ASSERT_TRUE(second->write(as_bytes("second")).ok());
  ASSERT_TRUE(second->commit().ok());
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(*read_text(folder / "a"), "first");
}

TEST(AtomicFileDeath, WriteAtOnlyOverwrites) {
  const TemporaryFolder folder;
  auto file = AtomicFile::create(folder / "a");
  ASSERT_TRUE(file->write(as_bytes("1234")).ok());
  EXPECT_DEATH(static_cast<void>(file->write_at(3, as_bytes("xx"))), "only overwrites what write");
}

TEST(MappedFile, ShowsTheContent) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "content").ok());
  auto file = MappedFile::open(folder / "a");
  ASSERT_TRUE(file.ok());
  MappedFile moved = std::move(*file);
  EXPECT_EQ(text_of(moved), "content");
  moved = std::move(*MappedFile::open(folder / "a"));
  EXPECT_EQ(text_of(moved), "content");
}

TEST(MappedFile, EmptyFileIsEmpty) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "").ok());
  EXPECT_TRUE(MappedFile::open(folder / "a")->bytes().empty());
}

TEST(MappedFile, OldContentStaysMappedWhenReplaced) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "old").ok());
  const auto file = MappedFile::open(folder / "a");
  ASSERT_TRUE(write_atomically(folder / "a", "new").ok());
  EXPECT_EQ(text_of(*file), "old");
}

TEST(MappedFile, FoldersPipesAndDevicesAreClearErrors) {
  const TemporaryFolder folder;
  EXPECT_THAT(MappedFile::open(folder.path()).error().message, HasSubstr("not a folder"));
  EXPECT_THAT(MappedFile::open("/dev/null").error().message, HasSubstr("a pipe or a device"));
  EXPECT_THAT(MappedFile::open(folder / "none").error().message, HasSubstr("check the path"));
}

TEST(MakeFolder, MakesParentsAndMayExist) {
  const TemporaryFolder folder;
  EXPECT_TRUE(make_folder("").ok());  // the parent of a plain name
  EXPECT_TRUE(make_folder(folder / "a/b/c").ok());
  EXPECT_TRUE(make_folder(folder / "a/b/c").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
}

TEST(MakeFolder, AFileInTheWayIsAClearError) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "").ok());
  EXPECT_THAT(make_folder(folder / "a").error().message,
              HasSubstr("there is a file where a folder is needed"));
  EXPECT_THAT(make_folder(folder / "a/b").error().message,
              HasSubstr("there is a file where a folder is needed"));
}

TEST(RemoveTree, RemovesWhatIsInsideAndFollowsNoLinks) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / "a/b").ok());
  ASSERT_TRUE(write_atomically(folder / "a/b/x", "").ok());
  ASSERT_TRUE(write_atomically(folder / "kept", "").ok());
  std::filesystem::create_symlink(folder.path(), folder / "a/link");
  EXPECT_TRUE(remove_tree(folder / "a").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_TRUE(std::filesystem::exists(folder / "kept"));
  EXPECT_TRUE(remove_tree(folder / "a").ok()) << "it is gone already";
  EXPECT_TRUE(remove_tree(folder / "kept").ok());
  EXPECT_EQ(folder.entry_count(), 0u);
}

TEST(SyncFolder, AMissingFolderIsAClearError) {
  EXPECT_THAT(sync_folder("no/such").error().message, HasSubstr("cannot open the folder no/such"));
}

}  // namespace
}  // namespace leeway
