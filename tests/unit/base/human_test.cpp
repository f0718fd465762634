#include "base/human.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

TEST(Human, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(999), "999 bytes");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(999'960), "1.0 MB");  // not 1000.0 kB
  EXPECT_EQ(human_bytes(1'234'567), "1.2 MB");
  EXPECT_EQ(human_bytes(5'000'000'000'000'000), "5000.0 TB");
}

TEST(Human, Seconds) {
  EXPECT_EQ(human_seconds(0.04), "0.0 s");
  EXPECT_EQ(human_seconds(9.94), "9.9 s");
  EXPECT_EQ(human_seconds(9.96), "10 s");
  EXPECT_EQ(human_seconds(59.6), "1 min 0 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 5 min");
  EXPECT_EQ(human_seconds(100'000), "1 d 3 h");
}

TEST(Human, Count) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1,000");
  EXPECT_EQ(human_count(2'448'382), "2,448,382");
}

TEST(Human, BytesOfAnySize) {
  EXPECT_EQ(shown_bytes(0), "0 bytes");
  EXPECT_EQ(shown_bytes(1.5e9), "1.5 GB");
  EXPECT_EQ(shown_bytes(1e30), "more than 1,000,000 TB");
}

}  // namespace
}  // namespace leeway
