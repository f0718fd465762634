#include "tokenizers/unicode.h"

namespace leeway {
namespace {

constexpr char32_t kCodePoints = 0x110000;

unsigned char byte_at(std::string_view text, size_t position) {
  return static_cast<unsigned char>(text[position]);
}

// What a first byte says about its character. size 0: no character starts with it.
struct Lead {
  size_t size = 0;
  char32_t bits = 0;
  char32_t smallest = 0;  // a smaller code of this many bytes is an overlong form
};

Lead read_lead(unsigned char byte) {
  if ((byte & 0xE0) == 0xC0) return {2, byte & 0x1Fu, 0x80};
  if ((byte & 0xF0) == 0xE0) return {3, byte & 0x0Fu, 0x800};
  if ((byte & 0xF8) == 0xF0) return {4, byte & 0x07u, 0x10000};
  return {};
}

}  // namespace

DecodedChar decode_char(std::string_view text, size_t position) {
  constexpr DecodedChar kBroken = {.code = kReplacement, .size = 1, .valid = false};
  const unsigned char first = byte_at(text, position);
  if (first < 0x80) return {.code = first};
  const Lead lead = read_lead(first);
  if (lead.size == 0 || text.size() - position < lead.size) return kBroken;
  char32_t code = lead.bits;
  for (size_t i = 1; i < lead.size; ++i) {
    const unsigned char next = byte_at(text, position + i);
    if ((next & 0xC0) != 0x80) return kBroken;
    code = (code << 6) | (next & 0x3Fu);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < lead.smallest || surrogate || code >= kCodePoints) return kBroken;
  return {.code = code, .size = lead.size};
}

void append_utf8(char32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

CharClasses::CharClasses() : packed_(kCodePoints / 4, 0) {
  for (const ClassRange& range : class_ranges()) {
    for (char32_t code = range.first; code <= range.last; ++code) {
      const unsigned bits = static_cast<unsigned>(range.kind) << ((code & 3) * 2);
      packed_[code >> 2] = static_cast<uint8_t>(packed_[code >> 2] | bits);
    }
  }
}

}  // namespace leeway
