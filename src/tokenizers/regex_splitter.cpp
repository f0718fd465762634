#include "tokenizers/regex_splitter.h"

#ifdef LEEWAY_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizers/unicode.h"

namespace leeway {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;
using Match = std::unique_ptr<pcre2_match_data, FreeMatch>;
using Context = std::unique_ptr<pcre2_match_context, FreeContext>;

// Limits for one match. The patterns in use take a few steps per byte of a match; these stop
// (a+)+$ within a fraction of a second.
constexpr uint64_t kStepsMin = 1'000'000;
constexpr uint64_t kStepsPerByte = 32;
constexpr uint32_t kHeapKib = 256 * 1024;

// PCRE2's \s also matches U+180E, which Unicode removed from White_Space.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += '\\';
      out += escaped;
    }
  }
  return out;
}

// Valid UTF-8 that splits like the original text: each broken byte became the three of U+FFFD.
struct Repaired {
  std::string text;
  std::vector<size_t> replaced;  // positions in `text`, ascending
};

std::optional<Repaired> repair(std::string_view text) {
  size_t position = 0;
  while (position < text.size() && decode_char(text, position).valid) {
    position += decode_char(text, position).size;
  }
  if (position == text.size()) return std::nullopt;
  Repaired repaired;
  repaired.text = text.substr(0, position);
  while (position < text.size()) {
    const DecodedChar character = decode_char(text, position);
    if (character.valid) {
      repaired.text += text.substr(position, character.size);
    } else {
      repaired.replaced.push_back(repaired.text.size());
      repaired.text += kReplacementUtf8;
    }
    position += character.size;
  }
  return repaired;
}

class RegexCursor final : public PieceCursor {
 public:
  RegexCursor(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        repaired_(repair(text)),
        subject_(repaired_ ? std::string_view(repaired_->text) : text),
        match_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    LEEWAY_CHECK(match_ && context_, "out of memory for PCRE2");
    // A long run of one class is one long match, so the steps allowed grow with the text.
    const uint64_t steps = kStepsMin + kStepsPerByte * subject_.size();
    pcre2_set_match_limit(context_.get(),
                          static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(context_.get(), kHeapKib);
  }

  std::string_view next() override {
    if (pending_begin_ == pending_end_) {
      if (position_ == subject_.size() || !status_.ok()) return {};
      find_match();
      if (!status_.ok()) return {};
    }
    // First the text before the match, then the match.
    const size_t end = position_ < pending_begin_ ? pending_begin_ : pending_end_;
    if (end == pending_end_) pending_begin_ = pending_end_;
    position_ = end;
    return original(end);
  }

  Status status() const override { return status_; }

 private:
  // Sets the pending range to the next non-empty match, or to nothing at the end.
  void find_match() {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(subject_.data());
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(code_, subject, subject_.size(), position_, options, match_.get(),
                            context_.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code_, subject, subject_.size(), position_, options | PCRE2_NO_JIT,
                          match_.get(), context_.get());
    }
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) return fail(found);
    const size_t* range = pcre2_get_ovector_pointer(match_.get());
    pending_begin_ = found >= 0 ? range[0] : subject_.size();
    pending_end_ = found >= 0 ? range[1] : subject_.size();
    LEEWAY_CHECK(position_ <= pending_begin_ && pending_begin_ <= pending_end_,
                 "a match lies in the text that is left");
  }

  void fail(int code) {
    const bool limit = code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT ||
                       code == PCRE2_ERROR_DEPTHLIMIT || code == PCRE2_ERROR_RECURSELOOP;
    constexpr size_t kShown = 24;
    const std::string_view left = subject_.substr(position_);
    const std::string_view shown = left.substr(0, char_begin(left, kShown));
    status_ = Error{fmt::format(
        "the tokenizer's split pattern {} on the text that starts with '{}'; use a tokenizer.json "
        "whose Split pattern does not backtrack",
        limit ? "takes too many steps" : fmt::format("fails (PCRE2 error {})", code), shown)};
  }

  // The largest position up to `at` where a character starts.
  static size_t char_begin(std::string_view text, size_t at) {
    if (at >= text.size()) return text.size();
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
    return at;
  }

  // The next piece of the original text, up to position `end` of the subject.
  std::string_view original(size_t end) {
    if (repaired_) {
      while (replaced_seen_ < repaired_->replaced.size() &&
             repaired_->replaced[replaced_seen_] < end) {
        ++replaced_seen_;
      }
    }
    const size_t text_end = end - replaced_seen_ * (kReplacementUtf8.size() - 1);
    const size_t begin = std::exchange(text_position_, text_end);
    return text_.substr(begin, text_end - begin);
  }

  const pcre2_code* code_;
  std::string_view text_;
  std::optional<Repaired> repaired_;
  std::string_view subject_;  // what PCRE2 sees
  Match match_;
  Context context_;
  size_t position_ = 0;       // in the subject: everything before was returned
  size_t pending_begin_ = 0;  // a match found but not returned yet
  size_t pending_end_ = 0;
  size_t text_position_ = 0;  // in the original text
  size_t replaced_seen_ = 0;
  Status status_;
};

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

class RegexSplitter final : public Splitter {
 public:
  explicit RegexSplitter(Code code) : code_(std::move(code)), cuts_(cuts_hold()) {}

  std::unique_ptr<PieceCursor> walk(std::string_view text) const override {
    return std::make_unique<RegexCursor>(code_.get(), text);
  }

  size_t last_safe_cut(std::string_view text) const override {
    if (!cuts_) return 0;
    for (size_t cut = text.size(); cut-- > 1;) {
      if ((text[cut] == ' ' || text[cut] == '\n') && is_word_byte(text[cut - 1])) return cut;
    }
    return 0;
  }

 private:
  // Of a text too short for a pattern to fail on; if one does, the comparison below does too.
  std::vector<std::string_view> pieces(std::string_view text) const {
    RegexCursor cursor(code_.get(), text);
    std::vector<std::string_view> out;
    for (std::string_view piece = cursor.next(); !piece.empty(); piece = cursor.next()) {
      out.push_back(piece);
    }
    return out;
  }

  // Tests the rule of last_safe_cut on all short texts over a small alphabet around the cut.
  bool cuts_hold() const {
    uint32_t lookbehind = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MAXLOOKBEHIND, &lookbehind);
    if (lookbehind > 0) return false;
    constexpr std::array<std::string_view, 5> kBefore = {"", "!", "A 'b", "12", "\n "};
    constexpr std::array<std::string_view, 6> kAfter = {"", "b", "'s", "1!", " \nC", "\n\n"};
    for (const std::string_view before : kBefore) {
      for (const char word : {'a', 's', 'Z', '7'}) {
        for (const char space : {' ', '\n'}) {
          for (const std::string_view after : kAfter) {
            const std::string first = std::string(before) + word;
            const std::string second = space + std::string(after);
            const std::string whole = first + second;
            std::vector<std::string_view> joined = pieces(first);
            for (const std::string_view piece : pieces(second)) joined.push_back(piece);
            if (joined != pieces(whole)) return false;
          }
        }
      }
    }
    return true;
  }

  Code code_;
  bool cuts_;
};

}  // namespace

Result<std::unique_ptr<Splitter>> make_regex_splitter(const std::string& pattern) {
  const std::string translated = with_unicode_spaces(pattern);
  int error = 0;
  size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                          nullptr));
  if (!code) {
    std::array<PCRE2_UCHAR, 128> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Error{fmt::format("PCRE2 cannot read the split pattern '{}': {}", pattern,
                             reinterpret_cast<const char*>(text.data()))};
  }
  // Without a just-in-time compiler for this machine, matching is slower but gives the same result.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return std::unique_ptr<Splitter>(std::make_unique<RegexSplitter>(std::move(code)));
}

}  // namespace leeway

#else

namespace leeway {

Result<std::unique_ptr<Splitter>> make_regex_splitter(const std::string& pattern) {
  return Error{"this build has no PCRE2, which the split pattern '" + pattern +
               "' needs: build with -DLEEWAY_PCRE2=ON"};
}

}  // namespace leeway

#endif
