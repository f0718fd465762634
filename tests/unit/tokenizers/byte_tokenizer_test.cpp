#include "tokenizers/byte_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"

namespace leeway {
namespace {

using testing::ElementsAre;

TEST(ByteTokenizer, BytesAreIds) {
  const auto tokenizer = must_load("bytes");
  EXPECT_THAT(ids_of(*tokenizer, "A\xFF\n"), ElementsAre(65, 255, 10));
  EXPECT_EQ(tokenizer->vocabulary(), 257);
  EXPECT_EQ(tokenizer->kind(), "bytes");
  EXPECT_EQ(tokenizer->document_marker(), TokenId{256});
}

TEST(ByteTokenizer, TheMarkerDecodesToNothingAndUnknownIdsToAReplacement) {
  const auto tokenizer = must_load("bytes");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{65, 256, 66}), "AB");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{65, 257, UINT32_MAX}),
            "A\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ByteTokenizer, MayBeCutAnywhere) {
  const auto tokenizer = must_load("bytes");
  EXPECT_EQ(tokenizer->last_safe_cut("abc"), 3u);
  EXPECT_EQ(tokenizer->last_safe_cut(""), 0u);
}

TEST(ByteTokenizer, SavesAndLoads) {
  const TemporaryFolder folder;
  const auto tokenizer = must_load("bytes");
  ASSERT_TRUE(tokenizer->save(folder / "saved").ok());
  const auto loaded = must_load("saved:" + (folder / "saved").string());
  EXPECT_EQ(loaded->hash(), tokenizer->hash());
  EXPECT_EQ(loaded->kind(), "bytes");
}

}  // namespace
}  // namespace leeway
