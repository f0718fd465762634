// GPT-2's handwritten split and PCRE2's must agree; each rule of the pattern has its own test.
#include "tokenizers/splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/gpt2_splitter.h"
#include "tokenizers/regex_splitter.h"

namespace leeway {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces(const Splitter& splitter, std::string_view text) {
  const std::unique_ptr<PieceCursor> cursor = splitter.walk(text);
  std::vector<std::string> out;
  for (std::string_view piece = cursor->next(); !piece.empty(); piece = cursor->next()) {
    out.emplace_back(piece);
  }
  return out;
}

TEST(Gpt2Splitter, WordsTakeOneSpaceInFront) {
  const Gpt2Splitter splitter;
  EXPECT_THAT(pieces(splitter, "a bc 12 !? d"), ElementsAre("a", " bc", " 12", " !?", " d"));
  EXPECT_THAT(pieces(splitter, "x1y_z"), ElementsAre("x", "1", "y", "_", "z"));
  EXPECT_THAT(pieces(splitter, ""), ElementsAre());
}

TEST(Gpt2Splitter, RunsOfSpacesLeaveTheLastToTheWord) {
  const Gpt2Splitter splitter;
  EXPECT_THAT(pieces(splitter, "a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(pieces(splitter, "a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces(splitter, "a\tb"), ElementsAre("a", "\t", "b"));
  EXPECT_THAT(pieces(splitter, "a  "), ElementsAre("a", "  "));
  EXPECT_THAT(pieces(splitter, " "), ElementsAre(" "));
  // The last space of the run has three bytes; it is not a ' ' that goes with the word.
  EXPECT_THAT(pieces(splitter, " \xE3\x80\x80z"), ElementsAre(" ", "\xE3\x80\x80", "z"));
}

TEST(Gpt2Splitter, Contractions) {
  const Gpt2Splitter splitter;
  EXPECT_THAT(pieces(splitter, "it's we're I'll"),
              ElementsAre("it", "'s", " we", "'re", " I", "'ll"));
  EXPECT_THAT(pieces(splitter, "IT'S"), ElementsAre("IT", "'", "S"));
  EXPECT_THAT(pieces(splitter, "''s 's"), ElementsAre("''", "s", " '", "s"));
  EXPECT_THAT(pieces(splitter, "'"), ElementsAre("'"));
  EXPECT_THAT(pieces(splitter, "'r"), ElementsAre("'", "r"));
  EXPECT_THAT(pieces(splitter, "'sx"), ElementsAre("'s", "x"));
}

TEST(Gpt2Splitter, BrokenBytesAreSymbols) {
  const Gpt2Splitter splitter;
  EXPECT_THAT(pieces(splitter, "a\xFF\x80!b"), ElementsAre("a", "\xFF\x80!", "b"));
  EXPECT_THAT(pieces(splitter, "a\xC3"), ElementsAre("a", "\xC3"));
}

TEST(Gpt2Splitter, CutsBetweenANonSpaceAndASpace) {
  const Gpt2Splitter splitter;
  EXPECT_EQ(splitter.last_safe_cut("one two th"), 7u);
  EXPECT_EQ(splitter.last_safe_cut("one\ntwo"), 3u);
  EXPECT_EQ(splitter.last_safe_cut("one  "), 3u);  // not between the spaces
  EXPECT_EQ(splitter.last_safe_cut("one\xE3\x80\x80 two"), 0u);
  EXPECT_EQ(splitter.last_safe_cut("\xE6\x9D\xB1 two"), 3u);
  EXPECT_EQ(splitter.last_safe_cut("word"), 0u);
  EXPECT_EQ(splitter.last_safe_cut(" word"), 0u);
  EXPECT_EQ(splitter.last_safe_cut(""), 0u);
}

TEST(WholeSplitter, OnePieceAndNoCut) {
  const WholeSplitter splitter;
  EXPECT_THAT(pieces(splitter, "a b"), ElementsAre("a b"));
  EXPECT_THAT(pieces(splitter, ""), ElementsAre());
  EXPECT_EQ(splitter.last_safe_cut("a b"), 0u);
}

#ifdef LEEWAY_PCRE2

std::unique_ptr<Splitter> regex(const std::string& pattern) {
  auto made = make_regex_splitter(pattern);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

TEST(RegexSplitter, MatchesAndTheTextBetween) {
  const auto splitter = regex("[0-9]+");
  EXPECT_THAT(pieces(*splitter, "ab12cd3"), ElementsAre("ab", "12", "cd", "3"));
  EXPECT_THAT(pieces(*splitter, "12"), ElementsAre("12"));
  EXPECT_THAT(pieces(*splitter, "none"), ElementsAre("none"));
  EXPECT_THAT(pieces(*splitter, ""), ElementsAre());
}

TEST(RegexSplitter, AgreesWithTheHandwrittenSplit) {
  const auto by_pattern =
      regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  const Gpt2Splitter by_hand;
  for (const std::string_view text :
       {"It's  a\n\n test\t of 12 things!!", "\xFF\xFE a\x80z \xC3\xA9\xC3", "\xE2\x80\x83 x  ",
        "!\xE1\xA0\x8E! a", "''ll 'll\xC2\xA0 1\xC2\xBD"}) {
    EXPECT_EQ(pieces(*by_pattern, text), pieces(by_hand, text)) << testing::PrintToString(text);
  }
}

TEST(RegexSplitter, CutsOnlyWhereThePatternAllows) {
  EXPECT_EQ(regex(R"(\s*[\r\n]+| ?\S+|\s+)")->last_safe_cut("ab cd e"), 5u);
  EXPECT_EQ(regex(R"(\S+\s*)")->last_safe_cut("ab cd e"), 0u);         // a word keeps its space
  EXPECT_EQ(regex(R"((?<=b) | ?\S+)")->last_safe_cut("ab cd e"), 0u);  // looks back
}

// PCRE2 counts steps; before it did so without end, and a match that gave up ended the program.
TEST(RegexSplitter, BacktrackingWithoutEndIsAnError) {
  const auto splitter = regex("(a+)+$");
  const std::string text = "b" + std::string(100'000, 'a') + "!";
  const auto cursor = splitter->walk(text);
  while (!cursor->next().empty()) continue;
  ASSERT_FALSE(cursor->status().ok());
  EXPECT_NE(cursor->status().error().message.find("split pattern takes too many steps"),
            std::string::npos);
  const auto fine = splitter->walk("aaa");
  EXPECT_EQ(fine->next(), "aaa");
  EXPECT_TRUE(fine->status().ok());
}

TEST(RegexSplitter, ALongRunIsOneMatch) {
  // Llama 3's pattern, and text of which each part makes one long piece.
  const auto splitter = regex(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  for (const char* unit : {"a", "\xC3\xA9", " ", "\n", "!", "\t \n"}) {
    std::string text;
    while (text.size() < 256 * 1024) text += unit;
    const auto cursor = splitter->walk(text);
    EXPECT_EQ(cursor->next().size(), text.size());
    EXPECT_TRUE(cursor->status().ok()) << unit;
  }
}

TEST(RegexSplitter, APatternThatCutsCharactersIsAnError) {
  EXPECT_FALSE(make_regex_splitter("a\\C").ok());
}

TEST(RegexSplitter, ABadPatternIsAnError) {
  const auto made = make_regex_splitter("a(b");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("'a(b'"), std::string::npos) << made.error().message;
}

#else

TEST(RegexSplitter, SaysThatThisBuildLacksPcre2) {
  const auto made = make_regex_splitter("a");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("no PCRE2"), std::string::npos);
}

#endif

}  // namespace
}  // namespace leeway
