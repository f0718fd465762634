#include "drivers/loop/planned_faults.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

using Kind = PlannedFault::Kind;

std::vector<Kind> kinds(const std::vector<PlannedFault>& faults) {
  std::vector<Kind> found;
  for (const PlannedFault& fault : faults) found.push_back(fault.kind);
  return found;
}

TEST(PlannedFaults, HappenOnceWhenTheReplicaItselfIsThere) {
  PlannedFaults faults({{.kind = Kind::kLose, .replica = {1}, .update = 20}}, 0);
  EXPECT_TRUE(faults.take_due({0}, 20).empty()) << "another one's update";
  EXPECT_TRUE(faults.take_due({1}, 19).empty());
  EXPECT_EQ(kinds(faults.take_due({1}, 20)), std::vector{Kind::kLose});
  EXPECT_TRUE(faults.take_due({1}, 20).empty());
}

// Others may have passed the update of the return before the replica is lost at all.
TEST(PlannedFaults, AReturnWaitsForTheLoss) {
  PlannedFaults faults({{.kind = Kind::kLeave, .replica = {1}, .update = 20},
                        {.kind = Kind::kReturn, .replica = {1}, .update = 30}},
                       0);
  EXPECT_TRUE(faults.take_due({0}, 30).empty());
  EXPECT_EQ(kinds(faults.take_due({1}, 20)), std::vector{Kind::kLeave});
  EXPECT_EQ(kinds(faults.take_due({0}, 31)), std::vector{Kind::kReturn});
}

// One that came back may have begun after an update that was planned for it.
TEST(PlannedFaults, AnUpdateThatNobodyMakesIsPassed) {
  PlannedFaults faults({{.kind = Kind::kLose, .replica = {1}, .update = 20}}, 0);
  EXPECT_EQ(faults.take_due({1}, 25).size(), 1U);
}

TEST(PlannedFaults, WhatAnEarlierSessionHadDoesNotHappenAgain) {
  PlannedFaults faults({{.kind = Kind::kLose, .replica = {1}, .update = 20},
                        {.kind = Kind::kReturn, .replica = {1}, .update = 30},
                        {.kind = Kind::kCoordinatorLost, .update = 25}},
                       20);
  EXPECT_EQ(kinds(faults.take_due({1}, 40)), std::vector{Kind::kCoordinatorLost});
}

}  // namespace
}  // namespace leeway
