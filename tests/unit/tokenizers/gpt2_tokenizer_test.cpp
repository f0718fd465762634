#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Gpt2Tokenizer : public testing::Test {
 protected:
  void SetUp() override { write_tiny_gpt2(folder_.path()); }
  std::string spec() const { return "gpt2:" + folder_.path().string(); }
  std::string refusal() const {
    const auto loaded = load_tokenizer(spec());
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? "" : loaded.error().message;
  }
  TemporaryFolder folder_;
};

TEST_F(Gpt2Tokenizer, IdsWorkedOutByHand) {
  const auto tokenizer = must_load(spec());
  EXPECT_THAT(ids_of(*tokenizer, "the the"), ElementsAre('t', 256, 258));
  EXPECT_THAT(ids_of(*tokenizer, "abc"), ElementsAre('a', 261));
  EXPECT_THAT(ids_of(*tokenizer, "aaaaa aa"), ElementsAre(260, 'a', ' ', 259));
  EXPECT_THAT(ids_of(*tokenizer, "\xC3\xA9\n\n"), ElementsAre(264, 263));
  EXPECT_THAT(ids_of(*tokenizer, ""), ElementsAre());
  EXPECT_EQ(tokenizer->vocabulary(), 267);
  EXPECT_EQ(tokenizer->document_marker(), TokenId{266});
  EXPECT_EQ(tokenizer->kind(), "gpt2");
}

TEST_F(Gpt2Tokenizer, TextCannotContainTheMarker) {
  const auto tokenizer = must_load(spec());
  const std::vector<TokenId> ids = ids_of(*tokenizer, "<|endoftext|>");
  EXPECT_EQ(ids.size(), 13u);
  EXPECT_EQ(tokenizer->decode(ids), "<|endoftext|>");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{266}), "<|endoftext|>");
}

TEST_F(Gpt2Tokenizer, IdsOutsideTheVocabularyDecodeToAReplacement) {
  const auto tokenizer = must_load(spec());
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{'a', 267, UINT32_MAX, 'b'}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST_F(Gpt2Tokenizer, TheOtherFileNames) {
  const uint64_t hash = must_load(spec())->hash();
  std::filesystem::rename(folder_ / "vocab.bpe", folder_ / "merges.txt");
  std::filesystem::rename(folder_ / "encoder.json", folder_ / "vocab.json");
  EXPECT_EQ(must_load(spec())->hash(), hash);
}

TEST_F(Gpt2Tokenizer, WindowsLineEnds) {
  const uint64_t hash = must_load(spec())->hash();
  write_file(folder_ / "vocab.bpe", "#version: 0.2\r\nh e\r\n\r\n");
  const auto tokenizer = must_load(spec());
  EXPECT_THAT(ids_of(*tokenizer, "he"), ElementsAre(256));
  EXPECT_NE(tokenizer->hash(), hash);
}

TEST_F(Gpt2Tokenizer, SavedFolderIsSelfContained) {
  const auto tokenizer = must_load(spec());
  const Path saved = folder_ / "saved";
  ASSERT_TRUE(tokenizer->save(saved).ok());
  std::filesystem::remove(folder_ / "vocab.bpe");
  const auto loaded = must_load("saved:" + saved.string());
  EXPECT_EQ(loaded->hash(), tokenizer->hash());
  EXPECT_EQ(loaded->kind(), "gpt2");
  EXPECT_EQ(loaded->document_marker(), tokenizer->document_marker());
  EXPECT_EQ(ids_of(*loaded, "the abc"), ids_of(*tokenizer, "the abc"));
}

TEST_F(Gpt2Tokenizer, ErrorsInTheMerges) {
  const auto merges = [&](std::string_view text) { write_file(folder_ / "vocab.bpe", text); };
  merges("h e\nhe q\n");
  EXPECT_THAT(refusal(), HasSubstr("merge 2 ('he q') needs token 'heq'"));
  merges("h e\nonly\n");
  EXPECT_THAT(refusal(), HasSubstr("line 2: 'only' is not a merge"));
  merges("a b c\n");
  EXPECT_THAT(refusal(), HasSubstr("line 1: 'a b c' is not a merge"));
  std::filesystem::remove(folder_ / "vocab.bpe");
  EXPECT_THAT(refusal(), HasSubstr("neither vocab.bpe nor merges.txt"));
}

TEST_F(Gpt2Tokenizer, ErrorsInTheVocabulary) {
  const auto names = [&](std::string_view text) { write_file(folder_ / "encoder.json", text); };
  write_file(folder_ / "vocab.bpe", "");
  names("{\"a\": 0");
  EXPECT_THAT(refusal(), HasSubstr("is not JSON"));
  names("[1, 2]");
  EXPECT_THAT(refusal(), HasSubstr("has no vocabulary"));
  names("{\"a\": -1}");
  EXPECT_THAT(refusal(), HasSubstr("the id of token 'a' is not a 32-bit number"));
  names("{\"a\": 4000000000}");
  EXPECT_THAT(refusal(), HasSubstr("the id of token 'a' is 4000000000, too large"));
  names("{\"a\": 1, \"b\": 1}");
  EXPECT_THAT(refusal(), HasSubstr("the id of token 'b' is 1, which another token has"));
  names("{\"\": 1}");
  EXPECT_THAT(refusal(), HasSubstr("empty token"));
  nlohmann::json vocabulary = tiny_vocabulary({});
  vocabulary.erase(to_byte_alphabet(" "));
  names(vocabulary.dump());
  EXPECT_THAT(refusal(), HasSubstr("lacks byte 0x20"));
}

TEST(SharedGpt2, TestVectors) {
  const Path folder = shared_data("gpt2-bpe");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto tokenizer = must_load("gpt2:" + folder.string());
  EXPECT_EQ(tokenizer->vocabulary(), 50257);
  EXPECT_EQ(tokenizer->document_marker(), TokenId{50256});
  std::ifstream lines(folder / "test-vectors.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const auto text = vector["text"].get<std::string>();
    const std::vector<TokenId> ids = ids_of(*tokenizer, text);
    EXPECT_EQ(ids, vector["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
  EXPECT_EQ(count, 18);
}

}  // namespace
}  // namespace leeway
