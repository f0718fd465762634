#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"
#include "tokenizers/hf_file.h"

namespace leeway {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class HfTokenizer : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const json& content) {
    write_file(folder_ / "tokenizer.json", content.dump());
    return must_load("hf:" + (folder_ / "tokenizer.json").string());
  }
  TemporaryFolder folder_;
};

std::string refusal(const json& content) {
  const auto parsed = parse_hf(content.dump(), "t.json");
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? "" : parsed.error().message;
}

json with_pattern(const std::string& pattern) {
  json content = tiny_hf();
  content["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", pattern}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  return content;
}

TEST_F(HfTokenizer, EqualsTheSameVocabularyAsGpt2Files) {
  const auto tokenizer = load(tiny_hf());
  write_tiny_gpt2(folder_.path());
  const auto gpt2 = must_load("gpt2:" + folder_.path().string());
  EXPECT_EQ(tokenizer->hash(), gpt2->hash());
  EXPECT_EQ(tokenizer->kind(), "hf");
  EXPECT_EQ(tokenizer->document_marker(), TokenId{266});
  EXPECT_EQ(ids_of(*tokenizer, "the the"), ids_of(*gpt2, "the the"));
}

TEST_F(HfTokenizer, MergesMayBeStrings) {
  json content = tiny_hf();
  const uint64_t hash = load(content)->hash();
  for (json& merge : content["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_EQ(load(content)->hash(), hash);
}

// Copying or printing JSON recurses: such a file must not exhaust the stack.
TEST_F(HfTokenizer, DeepNestingIsJustAnError) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  json content = tiny_hf();
  content["pre_tokenizer"] = "DEEP";
  std::string text = content.dump();
  text.replace(text.find("\"DEEP\""), 6, deep);
  EXPECT_FALSE(parse_hf(text, "t.json").ok());
  content = tiny_hf();
  content["model"]["merges"] = {"DEEP"};
  text = content.dump();
  text.replace(text.find("\"DEEP\""), 6, deep);
  const auto parsed = parse_hf(text, "t.json");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("a list is not a merge"));
}

TEST_F(HfTokenizer, AddPrefixSpace) {
  json content = tiny_hf();
  content["pre_tokenizer"]["add_prefix_space"] = true;
  const auto tokenizer = load(content);
  EXPECT_THAT(ids_of(*tokenizer, "the"), ElementsAre(258));
  EXPECT_THAT(ids_of(*tokenizer, " the"), ElementsAre(258));
  EXPECT_THAT(ids_of(*tokenizer, ""), ElementsAre());
  // A part that starts with a line end would get an extra space.
  EXPECT_EQ(tokenizer->last_safe_cut("ab cd\nef"), 2u);
  EXPECT_EQ(tokenizer->last_safe_cut("ab\ncd\nef"), 0u);
}

TEST_F(HfTokenizer, WithoutARegexTheTextIsOneWord) {
  json content = tiny_hf();
  content["pre_tokenizer"]["use_regex"] = false;
  const auto tokenizer = load(content);
  EXPECT_THAT(ids_of(*tokenizer, "\n\n\n"), ElementsAre(263, '\n'));
  EXPECT_EQ(tokenizer->last_safe_cut("ab cd"), 0u);
}

TEST_F(HfTokenizer, IgnoreMergesTakesWholePieces) {
  json content = tiny_hf();
  content["model"]["vocab"]["xyz"] = 300;
  EXPECT_THAT(ids_of(*load(content), "xyz"), ElementsAre('x', 'y', 'z'));
  content["model"]["ignore_merges"] = true;
  const auto tokenizer = load(content);
  EXPECT_THAT(ids_of(*tokenizer, "xyz"), ElementsAre(300));
  EXPECT_EQ(tokenizer->vocabulary(), 301);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{299}), "\xEF\xBF\xBD");  // a hole
}

TEST_F(HfTokenizer, TheMarkerIsTheFirstKnownName) {
  json content = tiny_hf();
  content["added_tokens"] = {{{"id", 400}, {"content", "</s>"}, {"special", true}},
                             {{"id", 401}, {"content", "<|end_of_text|>"}, {"special", true}}};
  EXPECT_EQ(load(content)->document_marker(), TokenId{401});
  content["added_tokens"].erase(1);
  EXPECT_EQ(load(content)->document_marker(), TokenId{400});
  content["added_tokens"] = json::array();
  EXPECT_EQ(load(content)->document_marker(), std::nullopt);
}

TEST_F(HfTokenizer, SavesWhatItRead) {
  json content = tiny_hf();
  content["pre_tokenizer"]["add_prefix_space"] = true;
  const auto tokenizer = load(content);
  ASSERT_TRUE(tokenizer->save(folder_ / "saved").ok());
  const auto loaded = must_load("saved:" + (folder_ / "saved").string());
  EXPECT_EQ(loaded->hash(), tokenizer->hash());
  EXPECT_EQ(loaded->kind(), "hf");
}

#ifdef LEEWAY_PCRE2
TEST_F(HfTokenizer, SplitByAPattern) {
  const auto tokenizer = load(with_pattern(R"(\p{N}{1,3}|\p{L}+|\s+)"));
  EXPECT_THAT(ids_of(*tokenizer, " the"), ElementsAre(' ', 't', 256));
  EXPECT_NE(tokenizer->hash(), load(with_pattern(R"(\p{N}|\p{L}+|\s+)"))->hash());
}
#else
TEST_F(HfTokenizer, APatternNeedsPcre2) {
  write_file(folder_ / "tokenizer.json", with_pattern("a").dump());
  const auto loaded = load_tokenizer("hf:" + (folder_ / "tokenizer.json").string());
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, HasSubstr("this build has no PCRE2"));
}
#endif

TEST(HfFile, RejectsFeaturesThatWouldChangeIds) {
  const auto changed = [](const json::json_pointer& where, const json& value) {
    json content = with_pattern("a");
    content[where] = value;
    return refusal(content);
  };
  EXPECT_THAT(changed("/model/type"_json_pointer, "WordPiece"), HasSubstr("type 'WordPiece'"));
  EXPECT_THAT(changed("/model/dropout"_json_pointer, 0.1), HasSubstr("dropout"));
  EXPECT_THAT(changed("/model/end_of_word_suffix"_json_pointer, "</w>"),
              HasSubstr("'end_of_word_suffix'"));
  EXPECT_THAT(changed("/normalizer"_json_pointer, {{"type", "NFC"}}),
              HasSubstr("normalizer 'NFC'"));
  const json::json_pointer split = "/pre_tokenizer/pretokenizers/0"_json_pointer;
  const json::json_pointer byte_level = "/pre_tokenizer/pretokenizers/1"_json_pointer;
  EXPECT_THAT(changed(split / "behavior", "Removed"), HasSubstr("behavior 'Removed'"));
  EXPECT_THAT(changed(split / "invert", true), HasSubstr("inverted"));
  EXPECT_THAT(changed(split / "pattern", {{"String", "a"}}), HasSubstr("regular expression"));
  EXPECT_THAT(changed(split / "type", "Digits"), HasSubstr("pre_tokenizer 'Digits'"));
  EXPECT_THAT(changed(byte_level / "use_regex", true), HasSubstr("use_regex after a Split"));
  EXPECT_THAT(changed(byte_level / "add_prefix_space", true), HasSubstr("add_prefix_space"));
  EXPECT_THAT(changed("/pre_tokenizer"_json_pointer, nullptr), HasSubstr("pre_tokenizer 'none'"));
  EXPECT_THAT(changed("/added_tokens/0/special"_json_pointer, false), HasSubstr("not special"));
}

TEST(HfFile, RejectsDamagedFiles) {
  EXPECT_THAT(refusal(json::object()), HasSubstr("not a tokenizer.json"));
  json content = tiny_hf();
  content["model"].erase("vocab");
  EXPECT_THAT(refusal(content), HasSubstr("has no vocabulary"));
  content = tiny_hf();
  content["model"]["merges"][1] = 7;
  EXPECT_THAT(refusal(content), HasSubstr("7 is not a merge"));
  content["model"]["merges"][1] = "one";
  EXPECT_THAT(refusal(content), HasSubstr("\"one\" is not a merge"));
  content["model"]["merges"] = nullptr;
  EXPECT_THAT(refusal(content), HasSubstr("null is not a merge"));
  content = tiny_hf();
  content["added_tokens"][0]["id"] = 3;
  EXPECT_THAT(refusal(content), HasSubstr("is 3, which another token has"));
  content["added_tokens"][0].erase("id");
  EXPECT_THAT(refusal(content), HasSubstr("has no content or no id"));
  const auto parsed = parse_hf("{", "t.json");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "t.json is not JSON: download it again");
}

}  // namespace
}  // namespace leeway
