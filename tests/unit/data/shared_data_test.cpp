// Tests with real text, if it is next to the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "../../support/data_files.h"
#include "../../support/temporary_folder.h"
#include "data/prepare.h"

namespace leeway {
namespace {

class SharedData : public testing::Test {
 protected:
  void SetUp() override {
#ifndef LEEWAY_ZSTD
    GTEST_SKIP() << "built without zstd";
#endif
    if (!std::filesystem::exists(shared_)) {
      GTEST_SKIP() << "no shared data next to the project (../shared/data)";
    }
  }
  Result<DataInfo> run(const std::string& file, const std::string& spec, double share = 0.05) {
    LEEWAY_ASSIGN(const auto tokenizer, load_tokenizer(spec));
    return prepare({.inputs = {(shared_ / file).string()}, .valid_share = share}, *tokenizer,
                   folder_ / "out", {});
  }
  const Path shared_ = "../shared/data";
  TemporaryFolder folder_;
};

// The number is from the shared data's README, counted by other programs.
TEST_F(SharedData, WikiTextHasItsKnownNumberOfTokens) {
  const auto info =
      run("wikitext-2/wiki.train.tokens.zst", "gpt2:" + (shared_ / "gpt2-bpe").string(), 0.0);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->train.tokens, 2'448'382U);
  EXPECT_EQ(info->train.markers, 1U);
  EXPECT_EQ(info->train.documents, 1U);
  EXPECT_EQ(info->train.text_bytes, 10'797'148U);
}

TEST_F(SharedData, WikipediaIsCutIntoArticles) {
  const auto info = run("wikipedia-en-2015/wiki.valid.txt.zst", "bytes");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->train.documents + info->valid->documents, 69U);
  const std::string text = text_in(folder_ / "out/train.tokens");
  EXPECT_EQ(text.substr(0, 25), "Royal Navy\n\nThe Royal Nav");
  EXPECT_EQ(text.find("<doc id"), text.npos);
  EXPECT_EQ(text.find("</doc>"), text.npos);
}

TEST_F(SharedData, StoriesAreCutAtTheirMarkers) {
  const auto info = run("tinystories-part/tinystories.sample.txt.zst", "bytes");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->train.documents + info->valid->documents, 317U);
  EXPECT_EQ(text_in(folder_ / "out/train.tokens").find("<|endoftext|>"), std::string::npos);
}

}  // namespace
}  // namespace leeway
