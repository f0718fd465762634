#include "pipeline/versions.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

ModelShape tiny() {
  return {.architecture = Architecture::kLlama,
          .activation = Activation::kSwiglu,
          .bias = false,
          .layers = 1,
          .width = 6,
          .heads = 1,
          .kv_heads = 1,
          .hidden = 5,
          .context = 4,
          .vocabulary = 7};
}

class VersionsTest : public testing::Test {
 protected:
  void publish(int64_t update) {
    versions.retire();
    auto next = versions.take_free({update}, 0);
    next->views.flat.fill_(static_cast<double>(update));
    versions.publish(std::move(next));
  }
  static double value_of(const Version& version) { return version.views.flat[0].item<double>(); }

  StageModel model{tiny(), whole_model(tiny()), at::TensorOptions(at::kFloat)};
  Versions versions{model, at::TensorOptions(at::kFloat)};
};

TEST_F(VersionsTest, OneBufferIsEnoughIfOldVersionsAreNotHeld) {
  for (int64_t update = 0; update < 5; ++update) {
    publish(update);
    EXPECT_EQ(versions.newest(0)->update, UpdateId{update});
    EXPECT_EQ(value_of(*versions.newest(0)), static_cast<double>(update));
  }
  EXPECT_EQ(versions.allocated_count(), 1);
}

TEST_F(VersionsTest, AHeldVersionIsNeverWritten) {
  publish(0);
  const auto held = versions.newest(0);
  for (int64_t update = 1; update < 4; ++update) publish(update);
  EXPECT_EQ(value_of(*held), 0);
  EXPECT_EQ(held->update, UpdateId{0});
  EXPECT_EQ(versions.allocated_count(), 2);
}

TEST_F(VersionsTest, AReleasedBufferIsReused) {
  publish(0);
  auto held = versions.newest(0);
  publish(1);
  const void* const memory = held->views.flat.const_data_ptr();
  held.reset();
  const auto second = versions.newest(0);
  publish(2);
  EXPECT_EQ(versions.newest(0)->views.flat.const_data_ptr(), memory);
  EXPECT_EQ(value_of(*second), 1);
  EXPECT_EQ(versions.allocated_count(), 2);
}

TEST_F(VersionsTest, ABufferBeingFilledIsNotGivenOutTwice) {
  publish(0);
  versions.retire();
  const auto first = versions.take_free({1}, 0);
  const auto second = versions.take_free({2}, 0);
  EXPECT_NE(first->views.flat.const_data_ptr(), second->views.flat.const_data_ptr());
}

TEST_F(VersionsTest, TheNewestWeightsHaveAVersionForEachLookAhead) {
  publish(3);
  EXPECT_EQ(versions.newest(1), nullptr);
  auto ahead = versions.take_free({3}, 1);
  ahead->views.flat.fill_(3.5);
  versions.publish(std::move(ahead));
  EXPECT_EQ(value_of(*versions.newest(0)), 3);
  EXPECT_EQ(value_of(*versions.newest(1)), 3.5);
  EXPECT_EQ(versions.newest_count(), 2);
  publish(4);
  EXPECT_EQ(versions.newest(1), nullptr);
  EXPECT_EQ(versions.allocated_count(), 2);
}

TEST_F(VersionsTest, ACopyOnTheHostMakesRoomOnTheDevice) {
  publish(3);
  const auto waiting = versions.copy_to_host(*versions.newest(0));
  publish(4);
  EXPECT_EQ(versions.allocated_count(), 1);
  EXPECT_TRUE(waiting->on_host);
  const auto back = versions.copy_to_device(*waiting);
  EXPECT_FALSE(back->on_host);
  EXPECT_EQ(value_of(*back), 3);
  EXPECT_EQ(back->update, UpdateId{3});
  EXPECT_EQ(versions.allocated_count(), 2);
}

TEST_F(VersionsTest, ABufferOnTheHostIsReused) {
  publish(0);
  auto first = versions.copy_to_host(*versions.newest(0));
  const auto second = versions.copy_to_host(*versions.newest(0));
  EXPECT_EQ(versions.allocated_on_host(), 2);
  first.reset();
  publish(1);
  EXPECT_EQ(value_of(*versions.copy_to_host(*versions.newest(0))), 1);
  EXPECT_EQ(value_of(*second), 0);
  EXPECT_EQ(versions.allocated_on_host(), 2);
}

TEST_F(VersionsTest, AreInTheComputeType) {
  Versions half(model, at::TensorOptions(at::kBFloat16));
  EXPECT_EQ(half.take_free({0}, 0)->views.flat.scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace leeway
