#include "tokenizers/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leeway {
namespace {

using testing::ElementsAre;

Bpe make_bpe(const std::vector<Merge>& merges) {
  std::array<TokenId, 256> bytes;
  for (TokenId byte = 0; byte < 256; ++byte) bytes[byte] = byte;
  return Bpe(bytes, merges);
}

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  std::vector<TokenId> ids;
  bpe.encode(word, ids);
  return ids;
}

TEST(Bpe, LowestRankFirstThenLeftmost) {
  const Bpe bpe = make_bpe({{'b', 'c', 300}, {'a', 'b', 301}, {'a', 'a', 302}});
  EXPECT_THAT(encode(bpe, "abc"), ElementsAre('a', 300));
  EXPECT_THAT(encode(bpe, "abd"), ElementsAre(301, 'd'));
  EXPECT_THAT(encode(bpe, "aaa"), ElementsAre(302, 'a'));
  EXPECT_THAT(encode(bpe, ""), ElementsAre());
}

TEST(Bpe, AppendsToTheGivenIds) {
  const Bpe bpe = make_bpe({});
  std::vector<TokenId> ids = {7};
  bpe.encode("x", ids);
  EXPECT_THAT(ids, ElementsAre(7, 'x'));
}

TEST(Bpe, TheLaterOfTwoMergesOfAPairWins) {
  const Bpe bpe = make_bpe({{'a', 'b', 300}, {'b', 'c', 301}, {'a', 'b', 302}});
  EXPECT_THAT(encode(bpe, "abc"), ElementsAre('a', 301));
  EXPECT_THAT(encode(bpe, "ab"), ElementsAre(302));
}

// Short words are searched, long ones use a heap: the merges and their order are the same.
TEST(Bpe, LongWordsAreEncodedLikeShortOnes) {
  const Bpe bpe = make_bpe({{'a', 'b', 300},
                            {300, 'a', 301},
                            {'b', 'b', 302},
                            {301, 302, 303},
                            {'a', 'a', 304},
                            {304, 304, 305},
                            {303, 301, 306}});
  std::string word;
  uint32_t state = 12345;
  for (int i = 0; i < 50; ++i) {  // pieces of 7 letters; 'x' merges with nothing and separates them
    for (int j = 0; j < 7; ++j) {
      state = state * 1664525u + 1013904223u;
      word += (state >> 30) % 2 == 0 ? 'a' : 'b';
    }
    word += 'x';
  }
  std::vector<TokenId> expected;
  for (size_t i = 0; i < word.size(); i += 8) bpe.encode(word.substr(i, 8), expected);
  EXPECT_EQ(encode(bpe, word), expected);
}

TEST(Bpe, AMegabyteOfOneLetter) {
  std::vector<Merge> merges = {{'a', 'a', 256}};
  for (TokenId id = 257; id < 276; ++id) merges.push_back({id - 1, id - 1, id});
  const Bpe bpe = make_bpe(merges);
  EXPECT_THAT(encode(bpe, std::string(size_t{1} << 20, 'a')), ElementsAre(275));
}

}  // namespace
}  // namespace leeway
