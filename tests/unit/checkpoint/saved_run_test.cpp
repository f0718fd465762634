#include "checkpoint/saved_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../../support/format_1.h"
#include "../../support/temporary_folder.h"
#include "../../support/tiny_run.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/safetensors.h"

namespace leeway {
namespace {

using Json = nlohmann::json;

void expect_same(const ReplicaState& a, const ReplicaState& b) {
  EXPECT_TRUE(at::equal(a.weights, b.weights));
  EXPECT_EQ(a.rounds, b.rounds);
  EXPECT_EQ(a.optimizer.updates, b.optimizer.updates);
  EXPECT_EQ(a.optimizer.momentum_product, b.optimizer.momentum_product);
  ASSERT_EQ(a.optimizer.buffers.size(), b.optimizer.buffers.size());
  for (size_t i = 0; i < a.optimizer.buffers.size(); ++i) {
    EXPECT_EQ(a.optimizer.buffers[i].first, b.optimizer.buffers[i].first);
    EXPECT_TRUE(at::equal(a.optimizer.buffers[i].second, b.optimizer.buffers[i].second));
  }
}

class SavedStateTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto saved = save_run(folder_.path(), tiny_run(), 3, /*stages=*/1);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    checkpoint_ = *saved;
  }

  // A checkpoint of an earlier version with correct hashes, but a wrong state.json or wrong
  // buffers.
  Path with(const std::string& state, const TensorFile& buffers) {
    return save_format_1(folder_ / "old", tiny_run(), state, buffers).value();
  }

  std::string state_text() { return format_1_state(tiny_run()).dump(); }

  TemporaryFolder folder_;
  Path checkpoint_;
};

TEST_F(SavedStateTest, IsLoadedCompletely) {
  SavedRun run = tiny_run();
  run.state.replicas[0].rounds.resize(1);  // as many as there are stages
  const auto loaded = load_run(checkpoint_, /*with_optimizer=*/true);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->counters.update, 12);
  EXPECT_EQ(loaded->counters.seconds, 3.5);
  EXPECT_EQ(loaded->counters.seconds_updating, 2.25);
  EXPECT_EQ(loaded->counters.recent_losses, run.counters.recent_losses);
  EXPECT_EQ(loaded->counters.tokenizer_hash, 0xFEDCBA9876543210);
  EXPECT_EQ(loaded->counters.data_hash, 1u);
  EXPECT_EQ(loaded->shape, run.shape);
  EXPECT_TRUE(at::equal(loaded->state.weights, run.state.weights));
  ASSERT_EQ(loaded->state.replicas.size(), 1u);
  expect_same(loaded->state.replicas[0], run.state.replicas[0]);
}

// More than ten, so that replica.1 is a prefix of another's name.
TEST_F(SavedStateTest, EveryReplicaGetsItsOwnStateFromEitherFormat) {
  SavedRun run = tiny_run(/*replicas=*/12);
  run.shape.layers = 2;
  const int64_t count = parameter_count(slice_layout(run.shape, whole_model(run.shape)));
  run.state.weights = at::arange(count, at::kFloat);
  for (ReplicaState& replica : run.state.replicas) {
    replica.weights = run.state.weights + static_cast<double>(replica.optimizer.updates);
    for (auto& [name, buffer] : replica.optimizer.buffers) buffer = replica.weights / 3;
  }
  for (const bool sharded : {true, false}) {
    const auto saved = sharded ? save_run(folder_.path(), run, 3, /*stages=*/2)
                               : save_format_1(folder_ / "old", run);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    EXPECT_EQ(std::filesystem::exists(*saved / "replica-11.stage-1.safetensors"), sharded);
    const auto loaded = load_run(*saved, /*with_optimizer=*/true);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_TRUE(at::equal(loaded->state.weights, run.state.weights));
    EXPECT_TRUE(loaded->cloned.empty());
    ASSERT_EQ(loaded->state.replicas.size(), 12u);
    for (size_t r = 0; r < 12; ++r) expect_same(loaded->state.replicas[r], run.state.replicas[r]);
  }
}

TEST_F(SavedStateTest, RejectsAReplicaWithoutWeights) {
  Json state = Json::parse(state_text());
  state["replicas"].push_back(state["replicas"][0]);
  const auto loaded = load_run(with(state.dump(), {}), /*with_optimizer=*/true);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("lacks the weights of a replica"), std::string::npos)
      << loaded.error().message;
}

TEST_F(SavedStateTest, LeavesTheOptimizerOutIfItIsNotWanted) {
  const auto loaded = load_run(checkpoint_, /*with_optimizer=*/false);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->state.replicas[0].optimizer.buffers.empty());
  EXPECT_TRUE(at::equal(loaded->state.weights, tiny_run().state.weights));
}

TEST_F(SavedStateTest, RejectsEachMissingOrMalformedMember) {
  for (const char* member : {"update", "seconds", "seconds_updating", "recent_losses",
                             "tokenizer_hash", "data_hash", "bytes_activations", "bytes_gradients",
                             "bytes_evaluation", "bytes_averaging", "replicas"}) {
    Json missing = Json::parse(state_text());
    ASSERT_EQ(missing.erase(member), 1u) << member;
    Json misshapen = Json::parse(state_text());
    misshapen[member] = Json::object();
    for (const Json& state : {missing, misshapen}) {
      const auto loaded = load_run(with(state.dump(), {}), /*with_optimizer=*/false);
      ASSERT_FALSE(loaded.ok()) << member;
      EXPECT_NE(loaded.error().message.find("state.json"), std::string::npos) << member;
    }
  }
}

TEST_F(SavedStateTest, RejectsEachMissingOrMalformedMemberOfAReplica) {
  for (const char* member : {"updates", "momentum_product", "rounds"}) {
    Json missing = Json::parse(state_text());
    ASSERT_EQ(missing["replicas"][0].erase(member), 1u) << member;
    Json misshapen = Json::parse(state_text());
    misshapen["replicas"][0][member] = Json::object({{"a", "b"}});
    for (const Json& state : {missing, misshapen}) {
      const auto loaded = load_run(with(state.dump(), {}), /*with_optimizer=*/false);
      ASSERT_FALSE(loaded.ok()) << member;
      EXPECT_NE(loaded.error().message.find("state.json"), std::string::npos) << member;
    }
  }
}

TEST_F(SavedStateTest, RejectsNumbersThatNoRunHas) {
  const auto refused = [&](const Json& state) {
    const auto loaded = load_run(with(state.dump(), {}), /*with_optimizer=*/false);
    return !loaded.ok() && loaded.error().message.find("state.json") != std::string::npos;
  };
  for (const char* member : {"update", "seconds", "seconds_updating", "bytes_averaging"}) {
    Json state = Json::parse(state_text());
    state[member] = -1;
    EXPECT_TRUE(refused(state)) << member;
  }
  for (const int64_t forged : {int64_t{-1}, int64_t{1'000'000'000'000'000}, INT64_MAX}) {
    Json state = Json::parse(state_text());
    state["update"] = forged;
    EXPECT_TRUE(refused(state)) << forged;
    state = Json::parse(state_text());
    state["replicas"][0]["updates"] = forged;
    EXPECT_TRUE(refused(state)) << forged;
    state = Json::parse(state_text());
    state["replicas"][0]["rounds"][0][0] = forged;
    EXPECT_TRUE(refused(state)) << forged;
  }
}

TEST_F(SavedStateTest, RejectsWhatIsNotAState) {
  for (const std::string text : {"", "[]", "{", "12", R"({"update": 1})"}) {
    EXPECT_FALSE(load_run(with(text, {}), /*with_optimizer=*/false).ok()) << text;
  }
  Json state = Json::parse(state_text());
  state["tokenizer_hash"] = "not hexadecimal";
  EXPECT_FALSE(load_run(with(state.dump(), {}), /*with_optimizer=*/false).ok());
}

TEST_F(SavedStateTest, RejectsBuffersOfAnotherModel) {
  const TensorFile buffers{.tensors = {{"momentum", at::zeros({3})}}, .metadata = {}};
  const auto loaded = load_run(with(state_text(), buffers), /*with_optimizer=*/true);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("momentum has 3 values"), std::string::npos)
      << loaded.error().message;
}

// Before it allocates memory for that model: the numbers may be anything.
TEST_F(SavedStateTest, RejectsAModelThatItsFileCannotHave) {
  for (const char* key : {"num_hidden_layers", "vocab_size", "intermediate_size"}) {
    Json config = Json::parse(read_text(checkpoint_ / "config.json").value());
    config[key] = 2147483647;
    const Path forged =
        write_checkpoint(
            folder_ / "old", 13,
            {{"config.json", config.dump()},
             {"model.safetensors", *read_safetensors(checkpoint_ / "model.safetensors")},
             {"state.safetensors", TensorFile()},
             {"state.json", state_text()}},
            3)
            .value();
    const auto loaded = load_run(forged, /*with_optimizer=*/false);
    ASSERT_FALSE(loaded.ok()) << key;
    EXPECT_NE(loaded.error().message.find("fewer than the model that config.json describes"),
              std::string::npos)
        << loaded.error().message;
  }
}

TEST_F(SavedStateTest, RejectsAChangedByte) {
  std::string text = read_text(checkpoint_ / "state.json").value();
  text[text.find("12")] = '9';  // same length: only the hash can tell
  ASSERT_TRUE(write_atomically(checkpoint_ / "state.json", text).ok());
  EXPECT_FALSE(load_run(checkpoint_, /*with_optimizer=*/false).ok());
}

}  // namespace
}  // namespace leeway
