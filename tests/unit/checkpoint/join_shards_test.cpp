#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"
#include "../../support/tiny_run.h"
#include "averaging/merge.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/shard.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three replicas of two stages, whose workers have written their shards.
class JoinShardsTest : public testing::Test {
 protected:
  void SetUp() override {
    shape_.layers = 2;
    ASSERT_TRUE(make_folder(folder_ / "shards").ok());
  }

  Shard shard(int64_t replica, int64_t stage, int64_t update) const {
    const StageSlice slice = cut_into_stages(shape_, 2)[static_cast<size_t>(stage)];
    const int64_t count = parameter_count(slice_layout(shape_, slice));
    const at::Tensor values = at::arange(count, at::kFloat) / 7 + replica * 10 + stage;
    return {.worker = {{replica}, {stage}},
            .update = update,
            .weights = values,
            .optimizer = {.buffers = {{"momentum", values / 3}},
                          .updates = update,
                          .momentum_product = 0.1 + static_cast<double>(replica)},
            .rounds = {5 + replica, 2}};
  }

  ShardFile write(const Shard& shard) const {
    const std::string name = shard_name(shard.worker);
    EXPECT_TRUE(write_shard(folder_ / "shards" / name, shard).ok());
    return {
        .path = folder_ / "shards" / name,
        .hash = describe_file(folder_ / "shards", name)->hash,
        .place = {
            .name = {}, .worker = shard.worker, .update = shard.update, .rounds = shard.rounds}};
  }

  ShardedRun run_with(const std::vector<std::pair<int64_t, int64_t>>& replicas) const {
    ShardedRun run = {
        .number = 20,
        .counters = {.update = 20, .recent_losses = {1.5}},
        .shape = shape_,
        .mesh = {.stages = 2, .replicas = 3, .table = 4, .members = ReplicaSet::first(3)},
        .shards = {}};
    for (const auto& [replica, update] : replicas) {
      for (const int64_t stage : {0, 1}) run.shards.push_back(write(shard(replica, stage, update)));
    }
    return run;
  }

  at::Tensor weights(int64_t replica) const {
    return at::cat({shard(replica, 0, 0).weights, shard(replica, 1, 0).weights});
  }

  Result<JoinedRun> join(const ShardedRun& run) const {
    return join_shards(folder_ / "checkpoints", run, 2);
  }

  TemporaryFolder folder_;
  ModelShape shape_ = tiny_shape();
};

TEST_F(JoinShardsTest, TheModelIsTheMeanAndEveryReplicaComesBack) {
  const auto joined = join(run_with({{0, 20}, {1, 23}, {2, 20}}));
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_EQ(joined->path, folder_ / "checkpoints/update-00000020");
  const auto loaded = load_run(joined->path, /*with_optimizer=*/true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const at::Tensor mean = mean_of({weights(0), weights(1), weights(2)});
  EXPECT_TRUE(at::equal(loaded->state.weights, mean));
  EXPECT_EQ(joined->weights_hash,
            hash_bytes({static_cast<const std::byte*>(mean.const_data_ptr()), mean.nbytes()}));
  ASSERT_EQ(loaded->state.replicas.size(), 3U);
  for (int64_t r = 0; r < 3; ++r) {
    const ReplicaState& replica = loaded->state.replicas[static_cast<size_t>(r)];
    EXPECT_TRUE(at::equal(replica.weights, weights(r)));
    EXPECT_EQ(replica.optimizer.updates, r == 1 ? 23 : 20);
    EXPECT_EQ(replica.optimizer.momentum_product, 0.1 + static_cast<double>(r));
    EXPECT_EQ(replica.rounds, (std::vector<std::vector<int64_t>>{{5 + r, 2}, {5 + r, 2}}));
  }
  EXPECT_TRUE(loaded->cloned.empty());
}

TEST_F(JoinShardsTest, AMissingReplicaIsACopyOfTheFirst) {
  const auto joined = join(run_with({{1, 20}}));
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  const auto loaded = load_run(joined->path, /*with_optimizer=*/true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_THAT(loaded->cloned, ElementsAre(0, 2));
  ASSERT_EQ(loaded->state.replicas.size(), 3U);
  for (const ReplicaState& replica : loaded->state.replicas) {
    EXPECT_TRUE(at::equal(replica.weights, weights(1)));
  }
  EXPECT_TRUE(at::equal(loaded->state.weights, weights(1)));
  // More come: the same checkpoint, with more in it.
  ASSERT_TRUE(join(run_with({{0, 20}, {1, 20}})).ok());
  EXPECT_THAT(load_run(joined->path, /*with_optimizer=*/true)->cloned, ElementsAre(2));
  EXPECT_EQ(list_checkpoints(folder_ / "checkpoints").size(), 1U);
}

// The shards' own folder may go: the checkpoint has names of its own for them.
TEST_F(JoinShardsTest, ACheckpointKeepsItsShards) {
  const auto joined = join(run_with({{0, 20}}));
  ASSERT_TRUE(remove_tree(folder_ / "shards").ok());
  EXPECT_TRUE(load_run(joined->path, /*with_optimizer=*/true).ok());
}

TEST_F(JoinShardsTest, AMissingOrTornShardMakesNoCheckpoint) {
  const ShardedRun run = run_with({{0, 20}, {1, 20}});
  ASSERT_TRUE(join(run).ok());
  const Path file = run.shards[1].path;
  std::string bytes = *read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(write_atomically(file, bytes).ok());  // another file: the checkpoint has the first
  ShardedRun next = run;
  next.number = 40;
  const auto torn = join(next);
  ASSERT_FALSE(torn.ok());
  EXPECT_THAT(torn.error().message, HasSubstr("has changed since its worker wrote it"));
  std::filesystem::remove(file);
  EXPECT_FALSE(join(next).ok());
  EXPECT_EQ(list_checkpoints(folder_ / "checkpoints").size(), 1U);
  EXPECT_TRUE(load_run(folder_ / "checkpoints/update-00000020", true).ok());
}

TEST_F(JoinShardsTest, AFullDiskLeavesWhatWasThere) {
  const ShardedRun few = run_with({{0, 20}});
  const auto joined = join(few);
  const ShardedRun more = run_with({{0, 20}, {1, 20}});
  {
    const FileSizeLimit full(600);
    EXPECT_FALSE(join(more).ok());
  }
  EXPECT_THAT(load_run(joined->path, /*with_optimizer=*/true)->cloned, ElementsAre(1, 2));
}

// Correct hashes, but the manifest names it as something else.
TEST_F(JoinShardsTest, AShardOfAnotherWorkerOrUpdateIsRefused) {
  for (const Shard& wrong : {shard(1, 0, 20), shard(0, 1, 20), shard(0, 0, 21)}) {
    const auto joined = join(run_with({{0, 20}}));
    const std::string name = shard_name({{0}, {0}});
    ASSERT_TRUE(write_shard(joined->path / name, wrong).ok());
    Manifest manifest = *read_manifest(joined->path);
    for (ManifestEntry& entry : manifest.files) entry = *describe_file(joined->path, entry.name);
    ASSERT_TRUE(write_manifest(joined->path, manifest).ok());
    const auto loaded = load_run(joined->path, /*with_optimizer=*/true);
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(loaded.error().message, HasSubstr(name));
  }
}

// What a file says of a common model is checked before anything is cut by it.
TEST_F(JoinShardsTest, AShardWhoseChunksCannotBeIsNone) {
  Shard sound = shard(0, 0, 20);
  const int64_t count = sound.weights.numel();
  sound.chunks = {{.values = count, .answer = 3, .counted = {{.replica = {0}, .newest = 2}}}};
  sound.sent = {{.chunk = 0, .number = 3, .payload = at::zeros({4}, at::kByte)}};
  const Path path = folder_ / "a.safetensors";
  const auto is_read = [&](const Shard& shard) {
    EXPECT_TRUE(write_shard(path, shard).ok());
    const bool read = read_shard(path).ok();
    EXPECT_TRUE(read == map_shard_weights(path).ok() || !shard.sent.empty());
    return read;
  };
  EXPECT_TRUE(is_read(sound));
  Shard wrong = sound;
  wrong.sent.front().chunk = 1;
  EXPECT_FALSE(is_read(wrong)) << "a chunk that there is not";
  sound.sent.clear();
  const auto without = [&](ChunkPosition chunk) {
    wrong = sound;
    wrong.chunks = {std::move(chunk)};
    return !is_read(wrong);
  };
  EXPECT_TRUE(without({.values = -1})) << "less than nothing";
  EXPECT_TRUE(without({.values = count - 1})) << "not all of the weights";
  EXPECT_TRUE(without({.values = count, .answer = -1}));
  EXPECT_TRUE(without({.values = count, .answer = INT64_MAX}));
  EXPECT_TRUE(without({.values = count, .counted = {{.replica = {0}, .newest = INT64_MIN}}}));
  EXPECT_TRUE(without({.values = count, .counted = {{.replica = {1}}, {.replica = {1}}}}));
  wrong.chunks = {{.values = INT64_MAX}, {.values = INT64_MAX}, {.values = count + 2}};
  EXPECT_FALSE(is_read(wrong)) << "a sum that overflows";
}

TEST_F(JoinShardsTest, AManifestWithPartsOfReplicasIsNone) {
  const auto joined = join(run_with({{0, 20}, {1, 20}}));
  const auto text = nlohmann::json::parse(*read_text(joined->path / kManifestName));
  const auto refused = [&](const auto& damage) {
    nlohmann::json json = text;
    damage(json);
    EXPECT_TRUE(write_atomically(joined->path / kManifestName, json.dump()).ok());
    return !read_manifest(joined->path).ok();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& json) { json["shards"].erase(1); }));
  EXPECT_TRUE(refused([](auto& json) { json["shards"].clear(); }));
  EXPECT_TRUE(refused([](auto& json) { json["shards"][1]["update"] = 19; }));
  EXPECT_TRUE(refused([](auto& json) { json["shards"][2] = json["shards"][0]; }));
  EXPECT_TRUE(refused([](auto& json) { json["shards"][0]["name"] = "../x"; }));
  EXPECT_TRUE(refused([](auto& json) { json["shards"][0].erase("rounds"); }));
  EXPECT_TRUE(refused([](auto& json) { json["replicas"] = 1; }));
  EXPECT_TRUE(refused([](auto& json) { json["replicas"] = 1'000'000'000; }));
  EXPECT_TRUE(refused([](auto& json) { json["stages"] = 0; }));
  EXPECT_TRUE(refused([](auto& json) { json["members"] = {7}; }));
}

}  // namespace
}  // namespace leeway
