#include "base/process.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

TEST(Process, KnowsItsMachine) {
  EXPECT_GE(core_count(), 1);
  EXPECT_GT(peak_rss_bytes(), 1'000'000);
  EXPECT_GT(physical_memory_bytes(), peak_rss_bytes());
}

}  // namespace
}  // namespace leeway
