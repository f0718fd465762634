#include "run/checkpoint_writer.h"

#include <gtest/gtest.h>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"
#include "../../support/tiny_run.h"
#include "checkpoint/checkpoint_folder.h"

namespace leeway {
namespace {

class HandClock final : public Clock {
 public:
  Nanos now() const override { return time; }
  Nanos time;
};

SavedRun run_at(int64_t update) {
  SavedRun run = tiny_run();
  run.counters.update = update;
  return run;
}

class CheckpointWriterTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  HeldFolder held_ = std::move(*HeldFolder::hold(folder_ / "run"));
  HandClock clock_;
  CheckpointWriter writer_ = CheckpointWriter(held_, 2, clock_);
};

TEST_F(CheckpointWriterTest, KeepsWhatItCouldNotWriteAndTriesAgain) {
  ASSERT_TRUE(writer_.write(run_at(1)).ok());
  {
    const FileSizeLimit full(100);
    EXPECT_FALSE(writer_.write(run_at(2)).ok());
    EXPECT_FALSE(writer_.again_due());  // it has just been tried
    clock_.time = Nanos{11'000'000'000};
    EXPECT_TRUE(writer_.again_due());
    EXPECT_FALSE(writer_.try_again().ok());
    EXPECT_FALSE(writer_.again_due());
  }
  // The last good one is there, and nothing of the failed one.
  const auto left = list_checkpoints(folder_ / "run" / "checkpoints");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(checkpoint_update(left[0]), 1);
  const auto written = writer_.try_again();
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(*written, folder_ / "run" / "checkpoints" / "update-00000002");
  EXPECT_TRUE(load_run(*written, /*with_optimizer=*/true).ok());
  EXPECT_FALSE(writer_.waiting());
}

TEST_F(CheckpointWriterTest, ANewerCheckpointTakesThePlaceOfOneThatWaits) {
  {
    const FileSizeLimit full(100);
    EXPECT_FALSE(writer_.write(run_at(1)).ok());
  }
  ASSERT_TRUE(writer_.write(run_at(2)).ok());
  EXPECT_FALSE(writer_.waiting());
  EXPECT_EQ(list_checkpoints(folder_ / "run" / "checkpoints").size(), 1u);
}

TEST_F(CheckpointWriterTest, ARemovedFolderIsNotMadeAgain) {
  ASSERT_TRUE(remove_tree(folder_ / "run").ok());
  const auto written = writer_.write(run_at(1));
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("has been removed"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST(CheckpointRoom, IsWhatSaveRunWrites) {
  const TemporaryFolder folder;
  SavedRun run = run_at(1);
  const int64_t count = run.state.weights.numel();
  run.state.replicas.push_back(run.state.replicas[0]);
  for (ReplicaState& replica : run.state.replicas)
    replica.optimizer.buffers = {{"a", at::zeros({count})}, {"b", at::zeros({count})}};
  const auto saved = save_run(folder.path(), run, 1);
  ASSERT_TRUE(saved.ok());
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(*saved)) bytes += file.file_size();
  const uint64_t expected = checkpoint_bytes(count, 4, 2, 2);
  EXPECT_EQ(expected, static_cast<uint64_t>(count) * 4 * (1 + 2 * 3));
  EXPECT_GT(bytes, expected);
  EXPECT_LT(bytes, expected + (1 << 16));
}

TEST(CheckpointRoom, IsRefusedForNoneAndWarnedOfForFewer) {
  Room room = {.free_bytes = 0, .checkpoint_bytes = 1'000'000'000, .keep = 2, .there_already = 0};
  room.free_bytes = 900'000'000;
  const auto none = check_room(room, "out/r");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(
      none.error().message,
      "out/r has room for 900.0 MB, but a checkpoint of this run takes 1.0 GB; free some space, "
      "or choose another --out");
  room.free_bytes = 2'500'000'000;
  const auto some = check_room(room, "out/r");
  ASSERT_TRUE(some.ok());
  EXPECT_NE(some->find("run.keep = 2 takes 3.0 GB"), std::string::npos) << *some;
  room.there_already = 1;
  EXPECT_EQ(*check_room(room, "out/r"), "");
}

}  // namespace
}  // namespace leeway
