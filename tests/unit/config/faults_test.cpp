#include "config/faults.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

using Kind = RunFault::Kind;

TEST(RunFaults, SaysWhoAndWhen) {
  const auto lost = parse_run_fault("replica 12 lost at 200");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind, Kind::kLost);
  EXPECT_EQ(lost->replica, 12);
  EXPECT_EQ(lost->update, 200);
  EXPECT_EQ(parse_run_fault("replica 0 leaves at 1")->kind, Kind::kLeaves);
  EXPECT_EQ(parse_run_fault("coordinator lost at 450")->kind, Kind::kCoordinatorLost);
  const auto back = parse_run_fault("replica 1 back at 300");
  const auto with_disk = parse_run_fault("replica 1 back with its disk at 300");
  EXPECT_EQ(back->kind, Kind::kBack);
  EXPECT_FALSE(back->with_disk);
  EXPECT_TRUE(with_disk->with_disk);
}

TEST(RunFaults, NothingElseIsOne) {
  for (const char* text : {"", "replica", "replica 1", "replica -1 lost at 3",
                           "replica 1 lost at 0", "replica 1 lost at 3 ", "replica 1 lost at three",
                           "Replica 1 lost at 3", "replica 1 back with a disk at 3",
                           "coordinator back at 3", "replica 99999999999999999999 lost at 3"}) {
    EXPECT_FALSE(parse_run_fault(text)) << text;
  }
}

}  // namespace
}  // namespace leeway
