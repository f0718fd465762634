#include "recipe/placement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leeway {
namespace {

std::vector<std::string> devices(const Recipe& recipe, int gpus) {
  std::vector<std::string> found;
  for (int64_t replica = 0; replica < recipe.mesh.replicas; ++replica) {
    for (int64_t stage = 0; stage < recipe.mesh.stages; ++stage) {
      found.push_back(worker_device(recipe, {{replica}, {stage}}, gpus));
    }
  }
  return found;
}

Recipe mesh_of(int64_t stages, int64_t replicas) {
  Recipe recipe;
  recipe.run.device = "cuda";
  recipe.mesh.stages = stages;
  recipe.mesh.replicas = replicas;
  return recipe;
}

using Names = std::vector<std::string>;

TEST(Placement, StagesGoOverTheGpusInOrderAndReplicasAfterThat) {
  EXPECT_EQ(devices(mesh_of(2, 2), 4), (Names{"cuda:0", "cuda:1", "cuda:2", "cuda:3"}));
  EXPECT_EQ(devices(mesh_of(2, 2), 2), (Names{"cuda:0", "cuda:1", "cuda:0", "cuda:1"}));
  EXPECT_EQ(devices(mesh_of(2, 2), 3), (Names{"cuda:0", "cuda:1", "cuda:2", "cuda:0"}));
}

TEST(Placement, NeighbouringStagesShareAGpuIfThereAreFewer) {
  EXPECT_EQ(devices(mesh_of(4, 1), 2), (Names{"cuda:0", "cuda:0", "cuda:1", "cuda:1"}));
}

TEST(Placement, OneGpuOrANamedOneIsForAll) {
  EXPECT_EQ(devices(mesh_of(2, 1), 1), (Names{"cuda", "cuda"}));
  Recipe named = mesh_of(2, 1);
  named.run.device = "cuda:3";
  EXPECT_EQ(devices(named, 8), (Names{"cuda:3", "cuda:3"}));
  named.run.device = "cpu";
  EXPECT_EQ(devices(named, 8), (Names{"cpu", "cpu"}));
}

TEST(Placement, AListIsTakenInItsOrder) {
  Recipe listed = mesh_of(2, 2);
  listed.mesh.devices = {"cuda:5", "cuda:1"};
  EXPECT_EQ(devices(listed, 8), (Names{"cuda:5", "cuda:1", "cuda:5", "cuda:1"}));
}

}  // namespace
}  // namespace leeway
