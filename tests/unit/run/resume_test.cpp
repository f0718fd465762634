// Sessions that go on from checkpoints: of an earlier format, and with replicas missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../../support/format_1.h"
#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"
#include "run/train.h"

namespace leeway {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() { write_small_text(place_ / "text"); }

  Result<TrainingSummary> train_to(const std::string& run, int64_t stop_at, bool resume = false,
                                   const std::vector<std::string>& sets = {}) {
    TrainOptions options = {.folder = place_ / run, .stop_at = stop_at};
    if (resume) options.existing = ExistingRun::kResume;
    options.observer.warned = [this](const std::string& text) { warnings_.push_back(text); };
    return train(*small_recipe(place_ / "text", sets), options);
  }
  std::string hash_after(const Result<TrainingSummary>& summary) const {
    EXPECT_TRUE(summary.ok()) << summary.error().message;
    if (!summary.ok()) return "";
    return nlohmann::json::parse(summary->json)["weights_hash"].get<std::string>();
  }

  TemporaryFolder place_;
  std::vector<std::string> warnings_;
};

TEST_F(ResumeTest, AFolderOfFormat1GivesTheSameBits) {
  for (const char* run : {"run", "other"}) ASSERT_TRUE(train_to(run, 5).ok());
  const Path checkpoints = place_ / "run/checkpoints";
  const SavedRun saved = load_run(checkpoints / "update-00000005", true).value();
  ASSERT_TRUE(remove_tree(checkpoints).ok());
  const Path old = save_format_1(checkpoints, saved).value();
  EXPECT_TRUE(std::filesystem::exists(old / "state.safetensors"));
  EXPECT_EQ(hash_after(train_to("run", 0, /*resume=*/true)),
            hash_after(train_to("other", 0, /*resume=*/true)));
  EXPECT_TRUE(
      std::filesystem::exists(checkpoints / "update-00000012" / "replica-1.stage-1.safetensors"));
}

TEST_F(ResumeTest, MomentsInBf16GoOnWithTheSameBits) {
  for (const char* const optimizer : {"adamw", "muon"}) {
    // A flush is one of the whole run, too, where it is saved at the same update.
    const std::vector<std::string> sets = {"optimizer.moments=bf16", "run.checkpoint_every=5",
                                           std::string("optimizer.name=") + optimizer};
    const std::string whole = optimizer;
    const std::string parts = whole + "-in-parts";
    ASSERT_TRUE(train_to(parts, 5, false, sets).ok());
    const SavedRun saved =
        load_run(place_ / parts / "checkpoints/update-00000005", /*with_state=*/true).value();
    for (const auto& [name, buffer] : saved.state.replicas[0].optimizer.buffers) {
      const bool moment = name == "momentum" || name == "variance";
      EXPECT_EQ(buffer.scalar_type(), moment ? at::kBFloat16 : at::kFloat) << name;
    }
    EXPECT_EQ(hash_after(train_to(parts, 0, /*resume=*/true, sets)),
              hash_after(train_to(whole, 0, false, sets)));
  }
  ASSERT_TRUE(train_to("other", 5).ok());
  const auto refused = train_to("other", 0, /*resume=*/true, {"optimizer.moments=bf16"});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("optimizer.moments was \"f32\" when"));
}

// As after a kill -9 when only one replica had saved.
TEST_F(ResumeTest, AMissingReplicaIsClonedAndTheUserIsTold) {
  ASSERT_TRUE(train_to("run", 5).ok());
  const Path checkpoint = place_ / "run/checkpoints/update-00000005";
  Manifest manifest = read_manifest(checkpoint).value();
  ASSERT_EQ(manifest.mesh.shards.size(), 4U);
  for (size_t at = 0; at < 2; ++at) {  // replica 0
    std::filesystem::remove(checkpoint / manifest.mesh.shards[at].name);
    std::erase_if(manifest.files, [&](const ManifestEntry& entry) {
      return entry.name == manifest.mesh.shards[at].name;
    });
  }
  manifest.mesh.shards.erase(manifest.mesh.shards.begin(), manifest.mesh.shards.begin() + 2);
  ASSERT_TRUE(write_manifest(checkpoint, manifest).ok());
  const auto summary = train_to("run", 0, /*resume=*/true);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->finished);
  EXPECT_THAT(warnings_, Contains(HasSubstr("was saved before replica 0 had come: it begins as a "
                                            "copy of replica 1")));
}

}  // namespace
}  // namespace leeway
