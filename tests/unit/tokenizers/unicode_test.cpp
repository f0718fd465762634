#include "tokenizers/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace leeway {
namespace {

TEST(Unicode, DecodesEveryLengthOfCharacter) {
  const std::string text = "a\xC3\xA9\xE6\x9D\xB1\xF0\x9F\x99\x82";
  const char32_t codes[] = {U'a', 0xE9, 0x6771, 0x1F642};
  size_t position = 0;
  for (size_t i = 0; i < 4; ++i) {
    const DecodedChar character = decode_char(text, position);
    EXPECT_TRUE(character.valid);
    EXPECT_EQ(character.code, codes[i]);
    EXPECT_EQ(character.size, i + 1);
    position += character.size;
  }
  EXPECT_EQ(position, text.size());
}

TEST(Unicode, ABrokenByteIsOneSymbol) {
  for (const std::string_view broken : {
           "\x80",              // continuation without a lead
           "\xC3",              // the text ends too early
           "\xC3\x28",          // no continuation
           "\xC0\xAF",          // overlong
           "\xE0\x80\xAF",      // overlong
           "\xED\xA0\x80",      // a surrogate
           "\xF4\x90\x80\x80",  // above 10FFFF
           "\xFF",
       }) {
    const DecodedChar character = decode_char(broken, 0);
    EXPECT_FALSE(character.valid) << testing::PrintToString(broken);
    EXPECT_EQ(character.size, 1u);
    EXPECT_EQ(character.code, kReplacement);
  }
}

TEST(Unicode, WritesWhatItReads) {
  for (const char32_t code : {0x41u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFDu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(code, text);
    EXPECT_EQ(decode_char(text, 0).code, code);
    EXPECT_EQ(decode_char(text, 0).size, text.size());
  }
}

void expect_class(CharClass expected, std::u32string_view codes) {
  static const CharClasses classes;
  for (const char32_t code : codes) {
    EXPECT_EQ(classes.of(code), expected) << "U+" << std::hex << static_cast<uint32_t>(code);
  }
}

TEST(Unicode, ClassesOfKnownCharacters) {
  expect_class(CharClass::kLetter, U"aZ\u00E9\u00DF\u05D0\u4E2D\u02B0\U00010348");
  expect_class(CharClass::kNumber, U"09\u00B2\u00BD\u2167\u0663");
  expect_class(CharClass::kSpace, U" \t\n\v\f\r\u0085\u00A0\u1680\u2003\u2028\u202F\u3000");
  // U+180E and U+200B look like spaces but are not; U+0301 is a mark.
  expect_class(CharClass::kOther, U"!_'\x1C\u180E\u200B\u0301\uFFFD\U0001F642\U0010FFFF");
}

TEST(Unicode, RangesAscend) {
  char32_t next = 0;
  for (const ClassRange& range : class_ranges()) {
    EXPECT_GE(range.first, next);
    EXPECT_LE(range.first, range.last);
    next = range.last + 1;
  }
  EXPECT_LE(next, 0x110000u);
}

}  // namespace
}  // namespace leeway
