#include "run/checkpoint_writer.h"

#include <gtest/gtest.h>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"
#include "../../support/tiny_run.h"
#include "checkpoint/checkpoint_folder.h"
#include "run/shard_folder.h"

namespace leeway {
namespace {

class CheckpointWriterTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(write_atomically(held_.at("events.jsonl"), "").ok()); }

  // One replica of one stage.
  static StageState state_at(int64_t update) {
    const ReplicaState replica = tiny_run().state.replicas[0];
    StageState state = {.worker = {{0}, {0}}, .update = update, .checkpoint = update};
    state.weights = replica.weights;
    state.optimizer = replica.optimizer;
    state.optimizer.updates = update;
    return state;
  }
  CheckpointWriter::Job job_of(int64_t update, const ShardStore::Stored& stored) const {
    RunCounters counters;
    counters.update = update;
    return {.run = {.number = update,
                    .counters = counters,
                    .shape = tiny_shape(),
                    .mesh = {.stages = 1, .replicas = 1, .members = ReplicaSet::first(1)},
                    .shards = {{.path = stored.file,
                                .hash = stored.hash,
                                .place = {.name = {}, .worker = {{0}, {0}}, .update = update}}}},
            .needless = {}};
  }

  TemporaryFolder folder_;
  HeldFolder held_ = std::move(*HeldFolder::hold(folder_ / "run"));
  TrainingObserver observer_;
  std::optional<ShardFolder> shards_ = std::optional<ShardFolder>(std::in_place, held_, observer_);
  CheckpointWriter writer_ = CheckpointWriter(held_, 2);
};

TEST_F(CheckpointWriterTest, MakesACheckpointOfShards) {
  const auto first = shards_->store(state_at(1));
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(writer_.write(job_of(1, *first)).ok());
  const auto second = shards_->store(state_at(2));
  CheckpointWriter::Job job = job_of(2, *second);
  job.needless = {first->file};
  const auto written = writer_.write(job);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(written->path, folder_ / "run/checkpoints/update-00000002");
  EXPECT_EQ(writer_.newest(), written->path);
  EXPECT_FALSE(std::filesystem::exists(shard_path(held_, first->file)));
  EXPECT_TRUE(std::filesystem::exists(shard_path(held_, second->file)));
  shards_.reset();  // the session ends
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints/shards"));
  for (const Path& checkpoint : list_checkpoints(folder_ / "run/checkpoints"))
    EXPECT_TRUE(load_run(checkpoint, /*with_optimizer=*/true).ok());
  EXPECT_EQ(list_checkpoints(folder_ / "run/checkpoints").size(), 2U);
}

TEST_F(CheckpointWriterTest, AFullDiskLeavesTheLastGoodOne) {
  ASSERT_TRUE(writer_.write(job_of(1, *shards_->store(state_at(1)))).ok());
  const auto second = shards_->store(state_at(2));
  {
    const FileSizeLimit full(100);
    EXPECT_FALSE(shards_->store(state_at(3)).ok());
    EXPECT_FALSE(writer_.write(job_of(2, *second)).ok());
  }
  EXPECT_EQ(writer_.newest(), folder_ / "run/checkpoints/update-00000001");
  EXPECT_TRUE(writer_.write(job_of(2, *second)).ok());
  EXPECT_TRUE(shards_->store(state_at(3)).ok());
}

TEST_F(CheckpointWriterTest, ARemovedFolderIsNotMadeAgain) {
  const auto stored = shards_->store(state_at(1));
  ASSERT_TRUE(remove_tree(folder_ / "run").ok());
  const auto again = shards_->store(state_at(2));
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("has been removed"), std::string::npos);
  const auto written = writer_.write(job_of(1, *stored));
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("has been removed"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// A session that was killed may have left shards that no checkpoint has.
TEST_F(CheckpointWriterTest, ASessionBeginsWithoutLeftovers) {
  const auto stored = shards_->store(state_at(1));
  const ShardFolder next(held_, observer_);
  EXPECT_FALSE(std::filesystem::exists(shard_path(held_, stored->file)));
}

TEST_F(CheckpointWriterTest, WhoGivesUpIsNotAskedAgain) {
  int asked = 0;
  observer_.wait_to_save = [&](const Error& error) {
    EXPECT_EQ(error.message, "the last checkpoint is not saved: no room");
    return ++asked < 3;
  };
  EXPECT_TRUE(shards_->wait_to_store(Error{"no room"}));
  EXPECT_TRUE(shards_->wait_to_store(Error{"no room"}));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(shards_->wait_to_store(Error{"no room"}));
  EXPECT_EQ(asked, 3);
}

TEST(CheckpointRoom, IsWhatSaveRunWrites) {
  const TemporaryFolder folder;
  SavedRun run = tiny_run();
  const int64_t count = run.state.weights.numel();
  run.state.replicas.push_back(run.state.replicas[0]);
  for (ReplicaState& replica : run.state.replicas)
    replica.optimizer.buffers = {{"a", at::zeros({count})}, {"b", at::zeros({count})}};
  const auto saved = save_run(folder.path(), run, 1, /*stages=*/1);
  ASSERT_TRUE(saved.ok());
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(*saved)) bytes += file.file_size();
  const auto model = static_cast<uint64_t>(count) * 4;
  const uint64_t expected = checkpoint_bytes(count, 4, 2, 2);
  EXPECT_EQ(expected, model * (2 + 2 * 3));  // the model may be there twice for a moment
  EXPECT_GT(bytes, expected - model);
  EXPECT_LT(bytes, expected - model + (1 << 16));
  EXPECT_EQ(checkpoint_bytes(count, 4, 1, 2), model * (1 + 3));
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
