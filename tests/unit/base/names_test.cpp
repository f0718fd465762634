#include "base/names.h"

#include <gtest/gtest.h>

namespace leeway {
namespace {

TEST(PlainName, NeedsNoQuotesAndIsNotHidden) {
  EXPECT_EQ(plain_name("async + sparse", "x"), "async_sparse");
  EXPECT_EQ(plain_name("k = 0.2, lag 1", "x"), "k_=_0.2_lag_1");
  EXPECT_EQ(plain_name("../../etc", "x"), "_.._etc");
  EXPECT_EQ(plain_name("-rf", "x"), "rf");
  EXPECT_EQ(plain_name("größe", "x"), "gr_e");
  EXPECT_EQ(plain_name("...", "x"), "x");
  EXPECT_EQ(plain_name("", "x"), "x");
}

TEST(WithoutSlash, RemovesTheFinalSlash) {
  EXPECT_EQ(without_slash("out/r1/"), Path("out/r1"));
  EXPECT_EQ(without_slash("out/r1"), Path("out/r1"));
}

TEST(ShellWord, IsQuotedOnlyIfItMustBe) {
  EXPECT_EQ(shell_word("out/r-1.2"), "out/r-1.2");
  EXPECT_EQ(shell_word("my runs/r"), "'my runs/r'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace leeway
