#include "report/tensorboard.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

// The algorithm's check value, and one from RFC 3720.
TEST(Crc32c, IsCastagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Tensorboard, ARunWithoutCurvesHasOnlyTheFormatVersion) {
  const RunData nothing;
  const std::string file = tensorboard_file(nothing, 0);
  // length, its checksum, a time, the version's text, a checksum
  EXPECT_EQ(file.size(), 8u + 4 + 9 + 2 + 13 + 4);
  EXPECT_NE(file.find("brain.Event:2"), file.npos);
}

}  // namespace
}  // namespace leeway
