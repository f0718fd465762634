#include "checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<CheckpointFile> files_of(const std::string& text, int64_t elements = 8) {
  TensorFile tensors;
  tensors.tensors.push_back({"w", at::arange(elements, at::kFloat)});
  return {{"state.json", text}, {"state.safetensors", std::move(tensors)}};
}

Path write(const Path& folder, int64_t update, int64_t keep, const std::string& text = "{}") {
  const auto written = write_checkpoint(folder, update, files_of(text), keep);
  EXPECT_TRUE(written.ok()) << written.error().message;
  return written.ok() ? *written : Path();
}

std::vector<int64_t> updates_in(const Path& folder) {
  std::vector<int64_t> updates;
  for (const Path& path : list_checkpoints(folder)) updates.push_back(*checkpoint_update(path));
  return updates;
}

// The id of a process that has exited.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return child;
}

TEST(CheckpointFolder, HasWhatWasWritten) {
  const TemporaryFolder folder;
  const Path path = write(folder.path(), 50, 2, "hello");
  EXPECT_EQ(path, folder / "update-00000050");
  EXPECT_EQ(*read_text(path / "state.json"), "hello");
  const auto tensors = read_safetensors(path / "state.safetensors");
  ASSERT_TRUE(tensors.ok());
  EXPECT_TRUE(at::equal(tensors->tensors[0].tensor, at::arange(8, at::kFloat)));
  EXPECT_TRUE(verify_checkpoint(path).ok());
  EXPECT_EQ(*latest_checkpoint(folder.path()), path);
}

TEST(CheckpointFolder, KeepsOnlyTheNewest) {
  const TemporaryFolder folder;
  for (const int64_t update : {10, 20, 30, 40}) write(folder.path(), update, 2);
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(30, 40));
  write(folder.path(), 50, 1);
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(50));
  EXPECT_EQ(folder.entry_count(), 1u);
}

TEST(CheckpointFolder, SortsByNumberNotByName) {
  const TemporaryFolder folder;
  write(folder.path(), 99'999'999, 3);
  write(folder.path(), 100'000'000, 3);
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(99'999'999, 100'000'000));
}

TEST(CheckpointFolder, AWrittenCheckpointSupersedesLaterOnes) {
  const TemporaryFolder folder;
  for (const int64_t update : {25, 50, 75}) write(folder.path(), update, 5);
  write(folder.path(), 30, 2);  // the run resumed from 25
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(25, 30));
}

TEST(CheckpointFolder, ReplacesOneOfTheSameUpdate) {
  const TemporaryFolder folder;
  write(folder.path(), 50, 2, "old");
  const Path path = write(folder.path(), 50, 2, "new");
  EXPECT_EQ(*read_text(path / "state.json"), "new");
  EXPECT_TRUE(verify_checkpoint(path).ok());
  EXPECT_EQ(folder.entry_count(), 1u);
}

TEST(CheckpointFolder, FailedWriteLeavesTheOldOnesAndNothingElse) {
  const TemporaryFolder folder;
  write(folder.path(), 50, 1);
  {
    const FileSizeLimit limit(4096);
    const auto failed = write_checkpoint(folder.path(), 60, files_of("{}", 100'000), 1);
    ASSERT_FALSE(failed.ok());
    EXPECT_THAT(failed.error().message, HasSubstr("state.safetensors: File too large"));
  }
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(50));
  EXPECT_EQ(folder.entry_count(), 1u);
  EXPECT_TRUE(verify_checkpoint(folder / "update-00000050").ok());
}

TEST(CheckpointFolder, FolderThatCannotBeMadeIsOneSentence) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "file", "in the way").ok());
  const auto failed = write_checkpoint(folder / "file/checkpoints", 1, files_of("{}"), 1);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr("there is a file where a folder is needed"));
}

TEST(CheckpointFolder, RemovesLeftoversOfDeadProcessesOnly) {
  const TemporaryFolder folder;
  const std::string name = "update-00000010.preparing-";
  const Path dead = folder / (name + std::to_string(dead_process()) + "-0");
  const Path alive = folder / (name + std::to_string(::getppid()) + "-0");
  const Path foreign = folder / (name + "notes");
  for (const Path& path : {dead, alive, foreign}) ASSERT_TRUE(make_folder(path / "inside").ok());
  write(folder.path(), 20, 1);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST(CheckpointFolder, ListsOnlyCompleteOnes) {
  const TemporaryFolder folder;
  for (const int64_t update : {10, 20, 30, 40}) write(folder.path(), update, 9);
  std::filesystem::remove(folder / "update-00000040/checkpoint.json");
  std::filesystem::resize_file(folder / "update-00000030/state.safetensors", 20);
  std::filesystem::remove(folder / "update-00000020/state.json");
  ASSERT_TRUE(make_folder(folder / "update-x").ok());
  ASSERT_TRUE(make_folder(folder / "notes").ok());
  EXPECT_THAT(updates_in(folder.path()), ElementsAre(10));
  EXPECT_EQ(*latest_checkpoint(folder.path()), folder / "update-00000010");
}

TEST(CheckpointFolder, NoCheckpointIsOneSentence) {
  const TemporaryFolder folder;
  EXPECT_TRUE(list_checkpoints(folder / "none").empty());
  const auto latest = latest_checkpoint(folder / "none");
  ASSERT_FALSE(latest.ok());
  EXPECT_THAT(latest.error().message, HasSubstr("has no complete checkpoint; train first"));
}

TEST(CheckpointFolder, DamageIsFoundAndAnEarlierOneNamed) {
  const TemporaryFolder folder;
  const Path earlier = write(folder.path(), 10, 2);
  const Path path = write(folder.path(), 20, 2);
  const Path file = path / "state.safetensors";
  std::string bytes = *read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(write_atomically(file, bytes).ok());

  const Status status = verify_checkpoint(path);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            file.string() + " is damaged (its hash differs); use the earlier checkpoint " +
                earlier.string());
  EXPECT_TRUE(verify_checkpoint(earlier).ok());
  // A slash at the end, as shells complete it, changes nothing.
  EXPECT_THAT(verify_checkpoint(path / "").error().message, HasSubstr(earlier.string()));
}

TEST(CheckpointFolder, DamageWithoutAnEarlierOne) {
  const TemporaryFolder folder;
  const Path path = write(folder.path(), 20, 2);
  std::filesystem::resize_file(path / "state.safetensors", 10);
  EXPECT_THAT(verify_checkpoint(path).error().message,
              HasSubstr("has 10 bytes, not 96); there is no earlier checkpoint next to it"));
  std::filesystem::remove(path / "state.safetensors");
  EXPECT_THAT(verify_checkpoint(path).error().message, HasSubstr("No such file"));
}

TEST(CheckpointFolder, InvalidManifestsAreRejected) {
  const TemporaryFolder folder;
  const Path path = write(folder.path(), 20, 2);
  for (const std::string text :
       {"", "{", "[]", R"({"format":2,"update":1,"files":[]})",
        R"({"format":3,"update":1,"files":[]})", R"({"format":1,"files":[]})",
        R"({"format":1,"update":1,"files":[{"name":"../x","bytes":1,"xxh3":"00"}]})",
        R"({"format":1,"update":1,"files":[{"name":"x","bytes":1,"xxh3":"zz"}]})",
        R"({"format":1,"update":1,"files":[{"name":"x","bytes":1,"xxh3":"0123456789abcdeg"}]})",
        R"({"format":1,"update":1,"files":[{"name":"x","bytes":-1,"xxh3":"00"}]})"}) {
    ASSERT_TRUE(write_atomically(path / "checkpoint.json", text).ok());
    EXPECT_THAT(verify_checkpoint(path).error().message, HasSubstr("is not a complete checkpoint"))
        << text;
  }
}

TEST(CheckpointFolder, NameOfAnUpdate) {
  EXPECT_EQ(checkpoint_update("a/update-00000050"), 50);
  EXPECT_EQ(checkpoint_update("a/update-00000050/"), 50);
  EXPECT_EQ(checkpoint_update("update-"), std::nullopt);
  EXPECT_EQ(checkpoint_update("update--5"), std::nullopt);
  EXPECT_EQ(checkpoint_update("update-00000050.preparing-7-0"), std::nullopt);
  EXPECT_EQ(checkpoint_update("update-99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace leeway
