#include "base/check.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

TEST(CheckDeathTest, NamesWorkerUpdateAndSeed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CheckScope outer({.worker = {.replica = {3}, .stage = {1}}, .update = 41, .seed = 7});
  EXPECT_DEATH(LEEWAY_CHECK(1 + 1 == 3, "sums are right"),
               "1 \\+ 1 == 3 \\(sums are right\\)\n.*replica 3 stage 1 after 41 updates, seed 7");
}

TEST(CheckDeathTest, TheInnermostScopeCountsAndEndsWithItsBlock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CheckScope outer({.worker = {.replica = {0}, .stage = {2}}, .update = 5, .seed = 1});
  {
    const CheckScope inner({.worker = {.replica = {1}, .stage = {0}}, .update = 9, .seed = 1});
    EXPECT_DEATH(LEEWAY_CHECK(false, ""), "replica 1 stage 0 after 9 updates");
  }
  EXPECT_DEATH(LEEWAY_CHECK(false, ""), "replica 0 stage 2 after 5 updates");
}

}  // namespace
}  // namespace leeway
