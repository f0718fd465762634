#include "tokenizers/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"

namespace leeway {
namespace {

using testing::HasSubstr;

#ifdef LEEWAY_SENTENCEPIECE

class SharedSentencePiece : public testing::Test {
 protected:
  void SetUp() override {
    const Path path = shared_data("sentencepiece/google-test-1k.model");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
    tokenizer_ = must_load("sentencepiece:" + path.string());
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SharedSentencePiece, EncodesAndDecodes) {
  EXPECT_EQ(tokenizer_->vocabulary(), 1000);
  EXPECT_EQ(tokenizer_->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer_->document_marker(), TokenId{2});
  const std::vector<TokenId> ids = ids_of(*tokenizer_, "This is a test.");
  EXPECT_GT(ids.size(), 3u);
  EXPECT_EQ(tokenizer_->decode(ids), "This is a test.");
}

TEST_F(SharedSentencePiece, IdsOutsideTheVocabularyDecodeAsUnknown) {
  EXPECT_THAT(tokenizer_->decode(std::vector<TokenId>{1000, UINT32_MAX}),
              HasSubstr("\xE2\x81\x87"));
}

TEST_F(SharedSentencePiece, CutsBetweenWords) {
  const std::string text = "I saw a girl with a telescope.  Two spaces, then end.";
  EXPECT_EQ(tokenizer_->last_safe_cut(text), text.find(" end."));
  EXPECT_EQ(tokenizer_->last_safe_cut("one  two"), 0u);
  EXPECT_EQ(tokenizer_->last_safe_cut("one "), 0u);
  const std::vector<TokenId> whole = ids_of(*tokenizer_, text);
  for (size_t size = text.size(); size > 0; --size) {
    const size_t cut = tokenizer_->last_safe_cut(std::string_view(text).substr(0, size));
    std::vector<TokenId> joined;
    ASSERT_TRUE(tokenizer_->encode(text.substr(0, cut), joined).ok());
    ASSERT_TRUE(tokenizer_->encode(text.substr(cut), joined).ok());
    EXPECT_EQ(joined, whole) << cut;
  }
}

TEST_F(SharedSentencePiece, SavesAndLoads) {
  const TemporaryFolder folder;
  ASSERT_TRUE(tokenizer_->save(folder / "saved").ok());
  const auto loaded = must_load("saved:" + (folder / "saved").string());
  EXPECT_EQ(loaded->hash(), tokenizer_->hash());
  EXPECT_EQ(ids_of(*loaded, "a girl"), ids_of(*tokenizer_, "a girl"));
}

TEST(SentencePiece, AForeignFileIsAnError) {
  const TemporaryFolder folder;
  for (const std::string_view content : {"", "this is not a model"}) {
    write_file(folder / "x.model", content);
    const auto loaded = load_tokenizer("sentencepiece:" + (folder / "x.model").string());
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(loaded.error().message, HasSubstr("x.model is not a SentencePiece model"));
    EXPECT_THAT(loaded.error().message, testing::Not(HasSubstr(".cc(")));  // the library's words
  }
}

#else

TEST(SentencePiece, SaysThatThisBuildLacksIt) {
  const auto loaded = load_tokenizer("sentencepiece:x.model");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, HasSubstr("this build has no SentencePiece"));
}

#endif

}  // namespace
}  // namespace leeway
