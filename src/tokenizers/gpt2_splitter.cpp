#include "tokenizers/gpt2_splitter.h"

namespace leeway {
namespace {

class Gpt2Cursor final : public PieceCursor {
 public:
  Gpt2Cursor(const Gpt2Splitter& splitter, std::string_view text)
      : splitter_(splitter), text_(text) {}
  std::string_view next() override {
    if (position_ == text_.size()) return {};
    const size_t begin = position_;
    position_ = splitter_.piece_end(text_, begin);
    return text_.substr(begin, position_ - begin);
  }

 private:
  const Gpt2Splitter& splitter_;
  std::string_view text_;
  size_t position_ = 0;
};

// The length of 's 't 're 've 'm 'll 'd at `begin`, where the apostrophe is; 0: none of them.
size_t contraction_size(std::string_view text, size_t begin) {
  const std::string_view after = text.substr(begin + 1, 2);
  if (after.empty()) return 0;
  if (after[0] == 's' || after[0] == 't' || after[0] == 'm' || after[0] == 'd') return 2;
  if (after == "re" || after == "ve" || after == "ll") return 3;
  return 0;
}

}  // namespace

Gpt2Splitter::Gpt2Splitter() {
  for (size_t byte = 0; byte < byte_class_.size(); ++byte) {
    byte_class_[byte] =
        byte < 0x80 ? static_cast<uint8_t>(classes_.of(static_cast<char32_t>(byte))) : kMultiByte;
  }
}

std::unique_ptr<PieceCursor> Gpt2Splitter::walk(std::string_view text) const {
  return std::make_unique<Gpt2Cursor>(*this, text);
}

CharClass Gpt2Splitter::class_at(std::string_view text, size_t position) const {
  const uint8_t kind = byte_class_[static_cast<unsigned char>(text[position])];
  if (kind != kMultiByte) return static_cast<CharClass>(kind);
  return classes_.of(decode_char(text, position).code);
}

size_t Gpt2Splitter::run_end(std::string_view text, size_t begin, CharClass kind) const {
  const auto wanted = static_cast<uint8_t>(kind);
  size_t end = begin;
  while (end < text.size()) {
    const uint8_t seen = byte_class_[static_cast<unsigned char>(text[end])];
    if (seen == wanted) {
      ++end;
      continue;
    }
    if (seen != kMultiByte) break;
    const DecodedChar character = decode_char(text, end);
    if (classes_.of(character.code) != kind) break;
    end += character.size;
  }
  return end;
}

// \s+(?!\S)|\s+ : a run before a non-space leaves its last space to the word, unless it has only
// one.
size_t Gpt2Splitter::space_end(std::string_view text, size_t begin) const {
  size_t last = begin;
  size_t end = begin;
  while (end < text.size() && class_at(text, end) == CharClass::kSpace) {
    last = end;
    end += decode_char(text, end).size;
  }
  return end == text.size() || last == begin ? end : last;
}

size_t Gpt2Splitter::piece_end(std::string_view text, size_t begin) const {
  if (text[begin] == '\'') {
    if (const size_t size = contraction_size(text, begin); size > 0) return begin + size;
  }
  const bool space_before = text[begin] == ' ' && begin + 1 < text.size();
  const size_t first = begin + (space_before ? 1 : 0);
  const CharClass kind = class_at(text, first);
  if (kind == CharClass::kSpace) return space_end(text, begin);
  return run_end(text, first, kind);
}

size_t Gpt2Splitter::last_safe_cut(std::string_view text) const {
  for (size_t cut = text.size(); cut-- > 1;) {
    if (text[cut] != ' ' && text[cut] != '\n') continue;
    // Back to the start of the character before the cut, which is a lead byte.
    size_t begin = cut - 1;
    const size_t earliest = cut > 4 ? cut - 4 : 0;
    while (begin > earliest && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const DecodedChar before = decode_char(text.substr(0, cut), begin);
    const bool whole = begin + before.size == cut;
    if (!whole || classes_.of(before.code) != CharClass::kSpace) return cut;
  }
  return 0;
}

}  // namespace leeway
