// Values as text, and the nearest word.
#include <gtest/gtest.h>

#include <limits>

#include "config/advice.h"
#include "config/nearest.h"
#include "config/toml_reader.h"
#include "config/value.h"

namespace leeway {
namespace {

TEST(TomlText, OfEveryKind) {
  EXPECT_EQ(toml_text(true), "true");
  EXPECT_EQ(toml_text(int64_t{-3}), "-3");
  EXPECT_EQ(toml_text(1.0), "1.0");
  EXPECT_EQ(toml_text(0.05), "0.05");
  EXPECT_EQ(toml_text(1e-8), "1e-08");
  EXPECT_EQ(toml_text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(toml_text("a\"b\\c\n"), R"("a\"b\\c\u000A")");
  EXPECT_EQ(toml_text(std::vector<std::string>{"a", "b c"}), R"(["a", "b c"])");
  EXPECT_EQ(toml_text(std::vector<std::string>{}), "[]");
  EXPECT_EQ(toml_text(std::vector<double>{1, 0.5}), "[1.0, 0.5]");
  EXPECT_EQ(toml_text(std::vector<double>{}), "[]");
  EXPECT_EQ(toml_text(Foreign{"a date"}), "a date");
}

TEST(Shown, StaysOneReadableLine) {
  EXPECT_EQ(shown("a\nb\tc\x7f"), "a?b?c?");
  EXPECT_EQ(shown("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(shown("x\xff\xc3"), "x??");
  EXPECT_EQ(shown("abcdef", 3), "abc...");
  EXPECT_EQ(shown("abc", 3), "abc");
  EXPECT_EQ(shown("a\xc3\xbc"
                  "bc",
                  2),
            "a\xc3\xbc...");  // never cut within a character
}

TEST(Utf8, RejectsOtherBytes) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("\xe2\x82\xac \xf0\x9f\x8c\x8d \xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(is_utf8("\x80"));              // a continuation byte without a start
  EXPECT_FALSE(is_utf8("\xc0\xaf"));          // an overlong '/'
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf"));      // a still longer one
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));      // half of a UTF-16 pair
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));  // past the end of Unicode
  EXPECT_FALSE(is_utf8("\xe2\x82"));          // cut short
}

TEST(TypingDistance, CountsTypos) {
  EXPECT_EQ(typing_distance("width", "width"), 0);
  EXPECT_EQ(typing_distance("widht", "width"), 1);  // neighbours swapped
  EXPECT_EQ(typing_distance("widt", "width"), 1);
  EXPECT_EQ(typing_distance("wwidth", "width"), 1);
  EXPECT_EQ(typing_distance("wodth", "width"), 1);
  EXPECT_EQ(typing_distance("", "abc"), 3);
  EXPECT_EQ(typing_distance("abc", ""), 3);
  EXPECT_EQ(typing_distance("kitten", "sitting"), 3);
}

TEST(Nearest, GivesUpWhenNothingIsClose) {
  const std::vector<std::string_view> words = {"heads", "width", "hidden", "layers"};
  EXPECT_EQ(nearest("widht", words), "width");
  EXPECT_EQ(nearest("hiden", words), "hidden");
  EXPECT_EQ(nearest("depth", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
  EXPECT_EQ(nearest(std::string(1 << 20, 'w'), words), std::nullopt);
}

TEST(KeyAdvice, FindsTyposInNameTableAndBoth) {
  EXPECT_EQ(key_advice("model.widht", Spelling::kPath), ", did you mean model.width?");
  EXPECT_EQ(key_advice("model.widht", Spelling::kName), ", did you mean width?");
  EXPECT_EQ(key_advice("model.batch", Spelling::kName), ", did you mean data.batch?");
  EXPECT_EQ(key_advice("modle.width", Spelling::kName), ", did you mean model.width?");
  EXPECT_EQ(key_advice("modle.widht", Spelling::kName), ", did you mean model.width?");
  EXPECT_EQ(key_advice("width", Spelling::kPath), ", did you mean model.width?");
  EXPECT_EQ(key_advice("mesh.colour", Spelling::kPath),
            "; the keys of mesh are stages, replicas, devices");
  EXPECT_EQ(
      key_advice("colour", Spelling::kPath),
      "; the tables are run, model, data, optimizer, mesh, pipeline, averaging, sim, network, "
      "network.emulate");
}

TEST(ReadTomlValue, TakesOneValueOnly) {
  EXPECT_EQ(read_toml_value("64").value(), Value(int64_t{64}));
  EXPECT_EQ(read_toml_value("['a', \"b\"]").value(), Value(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_toml_value("[1]").value(), Value(std::vector<double>{1}));
  EXPECT_EQ(read_toml_value("[1, 2.5, -3]").value(), Value(std::vector<double>{1, 2.5, -3}));
  EXPECT_EQ(read_toml_value("[]").value(), Value(std::vector<std::string>{}));
  for (const std::string mixed : {"[1, 'a']", "[[1]]", "[true]"}) {
    EXPECT_EQ(read_toml_value(mixed).value(),
              Value(Foreign{"a list that is neither all strings nor all numbers"}));
  }
  EXPECT_EQ(read_toml_value("1979-05-27").value(), Value(Foreign{"a date or a time"}));
  EXPECT_FALSE(read_toml_value("word").ok());
  EXPECT_FALSE(read_toml_value("").ok());
  EXPECT_EQ(read_toml_value("1\nother = 2").error().message, "more than one value");
}

}  // namespace
}  // namespace leeway
