#include "report/tensorboard.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

// The check value of the algorithm, and one of RFC 3720.
TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Tensorboard, ARunWithoutCurvesIsTheFormatsVersionAlone) {
  const RunData nothing;
  const std::string file = tensorboard_file(nothing, 0);
  // length, its checksum, a time, the version's text, a checksum
  EXPECT_EQ(file.size(), 8u + 4 + 9 + 2 + 13 + 4);
  EXPECT_NE(file.find("brain.Event:2"), file.npos);
}

}  // namespace
}  // namespace leeway
