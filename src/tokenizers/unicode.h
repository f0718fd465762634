// UTF-8 and the three character classes that split patterns use. The classes come from our own
// table, not from a library: ids must not change with the machine's Unicode version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace leeway {

enum class CharClass : uint8_t {
  kOther,   // punctuation, symbols, marks, controls, unassigned; also every byte of broken UTF-8
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s
};

struct ClassRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  CharClass kind = CharClass::kOther;
};

// Ascending; everything outside the ranges is kOther.
std::span<const ClassRange> class_ranges();

inline constexpr char32_t kReplacement = 0xFFFD;  // an "other symbol" in place of a broken byte
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct DecodedChar {
  char32_t code = 0;
  size_t size = 1;    // bytes
  bool valid = true;  // false: a byte that is not part of a character; its code is kReplacement
};

// The character at `position`. Strict: no surrogates, no overlong forms, nothing above 10FFFF.
DecodedChar decode_char(std::string_view text, size_t position);

void append_utf8(char32_t code, std::string& out);

// The class of every code point, two bits each.
class CharClasses {
 public:
  CharClasses();
  CharClass of(char32_t code) const {
    return static_cast<CharClass>((packed_[code >> 2] >> ((code & 3) * 2)) & 3);
  }

 private:
  std::vector<uint8_t> packed_;
};

}  // namespace leeway
