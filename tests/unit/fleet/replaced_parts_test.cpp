// Contributions that wait for a slow line give their places to newer ones, and nobody is told. That
// loses nothing: an answer that has a newer one in it tells its sender that the older one is lost,
// and its steps are sent again.
#include "../../support/zmq_posts.h"
#ifdef LEEWAY_MESH_OVER_TCP
#include <gtest/gtest.h>

#include <atomic>

#include "../../conformance/trio.h"
#include "../../support/no_recorder.h"
#include "fleet/gate.h"

namespace leeway {
namespace {

// Counts before it ends.
class CountingPost final : public Post {
 public:
  CountingPost(std::unique_ptr<Post> post, std::atomic<int64_t>& replaced)
      : post_(std::move(post)), replaced_(replaced) {}
  void send(ProcessId to, Parcel parcel) override { post_->send(to, std::move(parcel)); }
  void close() override {
    post_->close();
    replaced_ += static_cast<zmq::Endpoint&>(*post_).counts().parcels_replaced;
  }

 private:
  std::unique_ptr<Post> post_;
  std::atomic<int64_t>& replaced_;
};

// What a replica has done beyond the common model, at the end of a run that has sent everything, is
// what rounding has left.
TEST(ReplacedParts, OfACommonModelAreSentAgain) {
  Recipe recipe = trio_recipe(AveragingMethod::kLowbit);
  recipe.mesh.stages = 1;
  recipe.run.updates = 60;
  recipe.model.width = 64;
  recipe.model.hidden = 64;
  recipe.data.batch = 1;
  recipe.averaging.merge = MergePolicy::kOnArrival;
  const Tokens tokens(4001);
  const MeshData data = {.train = tokens.file(), .valid = nullptr, .vocabulary = kVocabulary};
  const RunPlan plan = make_plan(recipe, data);
  const Workers workers = make_workers(recipe, data, plan);
  std::atomic<int64_t> replaced = 0;
  Processes driver({.process_of = [](WorkerId id) { return 1 + size_t(id.replica.value); },
                    .posts =
                        [&](std::vector<Post::Handlers> handlers) {
                          auto posts = open_zmq_posts(std::move(handlers), /*encrypted=*/false,
                                                      {.bytes_per_second = 200'000});
                          for (auto& post : posts) {
                            post = std::make_unique<CountingPost>(std::move(post), replaced);
                          }
                          return posts;
                        },
                    .slot = slot_of});
  NoRecorder recorder;
  ASSERT_TRUE(driver.run(workers, recorder, nullptr).ok());
  EXPECT_GT(replaced, 0) << "the line was slow enough for that";
  for (const auto& worker : workers) {
    SCOPED_TRACE(worker->id().replica.value);
    const at::Tensor common = worker->compute()->averaging().common_model();
    const at::Tensor weights = worker->compute()->stage().weights();
    EXPECT_LT((weights - common).abs().max().item<double>(), 1e-6);
    EXPECT_TRUE(at::equal(common, workers.front()->compute()->averaging().common_model()));
  }
}

}  // namespace
}  // namespace leeway
#endif
