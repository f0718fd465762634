#include "run/saved_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;

StageState state_of(int64_t replica, int64_t stage, int64_t update, int64_t checkpoint) {
  StageState state;
  state.worker = {{replica}, {stage}};
  state.update = update;
  state.checkpoint = checkpoint;
  return state;
}

std::vector<int64_t> updates_of(const std::optional<std::vector<StageState>>& states) {
  std::vector<int64_t> updates;
  if (!states) return updates;
  for (const StageState& state : *states) updates.push_back(state.update);
  return updates;
}

TEST(SavedStates, ACheckpointHasEveryWorkerInOrder) {
  SavedStates states(2, Membership(2).members());
  EXPECT_FALSE(states.add(state_of(1, 1, 10, 10)));
  EXPECT_FALSE(states.add(state_of(0, 0, 10, 10)));
  EXPECT_FALSE(states.add(state_of(1, 0, 10, 10)));
  const auto whole = states.add(state_of(0, 1, 10, 10));
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)[1].worker, (WorkerId{{0}, {1}}));
  EXPECT_THAT(updates_of(whole), ElementsAre(10, 10, 10, 10));
}

TEST(SavedStates, AReplicaThatIsPastARequestSavesForItLater) {
  SavedStates states(1, Membership(2).members());
  EXPECT_FALSE(states.add(state_of(1, 0, 70, 70)));
  EXPECT_THAT(updates_of(states.add(state_of(0, 0, 131, 70))), ElementsAre(131, 70));
}

// The slower replica's states for scheduled checkpoints outlive a requested one that is apart.
TEST(SavedStates, AScheduledCheckpointIsNotLostToARequestedOne) {
  SavedStates states(1, Membership(2).members());
  EXPECT_FALSE(states.add(state_of(1, 0, 180, 180)));
  EXPECT_FALSE(states.add(state_of(1, 0, 204, 204)));
  EXPECT_THAT(updates_of(states.add(state_of(0, 0, 175, 204))), ElementsAre(175, 204));
  EXPECT_THAT(updates_of(states.add(state_of(0, 0, 180, 180))), ElementsAre(180, 180));
}

TEST(SavedStates, AReplicaThatHasEndedGivesItsLastState) {
  SavedStates states(1, Membership(2).members());
  EXPECT_FALSE(states.add(state_of(0, 0, 300, 300)));
  EXPECT_THAT(updates_of(states.add(state_of(1, 0, 250, 250))), ElementsAre(300, 250));
  EXPECT_THAT(updates_of(states.add(state_of(1, 0, 300, 300))), ElementsAre(300, 300));
}

// A stop: replicas that are ahead have saved on the way, and more after that.
TEST(SavedStates, AtTheEndOfASessionEachReplicaGivesItsLastState) {
  SavedStates states(1, Membership(3).members());
  const auto last = [](int64_t replica, int64_t update) {
    StageState state = state_of(replica, 0, update, update);
    state.last = true;
    return state;
  };
  EXPECT_FALSE(states.add(state_of(1, 0, 240, 240)));
  EXPECT_FALSE(states.add(state_of(2, 0, 240, 240)));
  EXPECT_FALSE(states.add(last(0, 239)));
  EXPECT_FALSE(states.add(last(2, 270)));
  EXPECT_THAT(updates_of(states.add(last(1, 242))), ElementsAre(239, 242, 270));
}

TEST(SavedStates, ReplicasThatStopApartAreJoined) {
  SavedStates states(1, Membership(2).members());
  EXPECT_FALSE(states.add(state_of(1, 0, 66, 66)));
  EXPECT_THAT(updates_of(states.add(state_of(0, 0, 65, 65))), ElementsAre(65, 66));
  EXPECT_THAT(updates_of(states.add(state_of(0, 0, 80, 80))), ElementsAre(80, 66));
  EXPECT_THAT(updates_of(states.add(state_of(1, 0, 79, 70))), ElementsAre(80, 79));
}

}  // namespace
}  // namespace leeway
