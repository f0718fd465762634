#include "fleet/estranged.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

constexpr Nanos kPatience = {100};

// Process 10 r + s has stage s of replica r.
Directory mesh_of(int64_t replicas, int64_t stages) {
  Directory directory = {.number = 1, .members = {}};
  for (int64_t r = 0; r < replicas; ++r) {
    for (int64_t s = 0; s < stages; ++s) {
      directory.members.push_back(
          {.id = {10 * r + s},
           .places = {{.worker = {.replica = {r}, .stage = {s}}, .incarnation = 0}}});
    }
  }
  return directory;
}

TEST(Estranged, OneOfTwoNeighboursHasToGoWhenPatienceEnds) {
  Estranged estranged(kPatience);
  const Directory directory = mesh_of(2, 3);
  estranged.lost({11}, {12}, {0});
  estranged.lost({12}, {11}, {50});  // the other one has noticed as well
  EXPECT_FALSE(estranged.to_part_with(directory, {99}));
  EXPECT_EQ(estranged.to_part_with(directory, {100}), ProcessId{12});
  estranged.leave({12});
  EXPECT_FALSE(estranged.to_part_with(directory, {1000}));
}

TEST(Estranged, WhoHearEachOtherAgainStay) {
  Estranged estranged(kPatience);
  estranged.lost({11}, {12}, {0});
  estranged.heard({12}, {11});
  EXPECT_FALSE(estranged.to_part_with(mesh_of(2, 3), {1000}));
  estranged.lost({11}, {12}, {1000});
  EXPECT_FALSE(estranged.to_part_with(mesh_of(2, 3), {1099}));
  EXPECT_TRUE(estranged.to_part_with(mesh_of(2, 3), {1100}));
}

TEST(Estranged, WhoDoNotNeedEachOtherStay) {
  Estranged estranged(kPatience);
  estranged.lost({1}, {12}, {0});  // another stage of another replica
  EXPECT_FALSE(estranged.to_part_with(mesh_of(2, 3), {1000}));
  estranged.lost({2}, {12}, {0});
  EXPECT_TRUE(estranged.to_part_with(mesh_of(2, 3), {1000})) << "they average";
}

TEST(Estranged, TheOneWithoutMostOthersGoes) {
  Estranged estranged(kPatience);
  estranged.lost({0}, {1}, {0});
  estranged.lost({0}, {10}, {90});
  estranged.lost({0}, {2}, {90});
  EXPECT_EQ(estranged.to_part_with(mesh_of(2, 3), {100}), ProcessId{0});
}

TEST(Estranged, WhoHasNoPlaceDoesNotCount) {
  Estranged estranged(kPatience);
  estranged.lost({7}, {1}, {0});
  EXPECT_FALSE(estranged.to_part_with(mesh_of(2, 3), {1000}));
}

}  // namespace
}  // namespace leeway
