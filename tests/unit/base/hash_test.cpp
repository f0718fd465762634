#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace leeway {
namespace {

// XXH3's published values. Token files and checkpoints contain these hashes, so they must not
// change.
TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_hex(hash_text("")), "2d06800538d394c2");
  EXPECT_EQ(hash_hex(hash_text("abc")), "78af5f94892f3950");
}

TEST(Hash, BytesAndTextAgree) {
  EXPECT_EQ(hash_bytes(as_bytes("leeway")), hash_text("leeway"));
  EXPECT_EQ(hash_bytes(as_bytes("leeway"), 5), hash_text("leeway", 5));
}

TEST(Hash, SeedAndContentMatter) {
  EXPECT_NE(hash_text("a"), hash_text("b"));
  EXPECT_NE(hash_text("a", 1), hash_text("a", 2));
  EXPECT_NE(hash_text("a"), hash_text(std::string_view("a\0", 2)));
}

TEST(Hash, HexHasSixteenDigits) {
  EXPECT_EQ(hash_hex(0), "0000000000000000");
  EXPECT_EQ(hash_hex(0xabc), "0000000000000abc");
  EXPECT_EQ(hash_hex(~uint64_t{0}), "ffffffffffffffff");
}

TEST(StreamingHash, EmptyEqualsEmpty) { EXPECT_EQ(StreamingHash().digest(), hash_text("")); }

TEST(StreamingHash, ContinuesAfterADigestAndAMove) {
  StreamingHash first;
  first.add(as_bytes("one "));
  EXPECT_EQ(first.digest(), hash_text("one "));
  StreamingHash second = std::move(first);
  second.add(as_bytes("two"));
  EXPECT_EQ(second.digest(), hash_text("one two"));
}

}  // namespace
}  // namespace leeway
