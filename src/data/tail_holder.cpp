#include "data/tail_holder.h"

#include <algorithm>

#include "base/check.h"

namespace leeway {
namespace {

constexpr size_t kSlackBytes = 256 * 1024;  // Text is moved only when this much can go.
constexpr size_t kEndsMax = 64 * 1024;      // A bound for documents of a few bytes.

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

}  // namespace

TailHolder::TailHolder(ValidationSplit split, PieceBuilder& builder)
    : split_(split), builder_(builder), passing_(split.share == 0.0) {}

void TailHolder::add_text(std::string_view text) {
  if (!passing_ && !inside_ && split_.holds(document_)) {
    release(held_.size());
    passing_ = true;
  }
  inside_ = true;
  if (passing_) return builder_.add_text(text);
  held_.append(text);
  text_bytes_ += text.size();
  const size_t wanted = tail_bytes();
  if (held_.size() > wanted + kSlackBytes) release(held_.size() - wanted);
}

void TailHolder::end_document() {
  inside_ = false;
  if (passing_) return builder_.end_document();
  ++document_;
  ends_.push_back(held_.size());
  if (ends_.size() > kEndsMax) release(ends_[kEndsMax / 2]);
}

bool TailHolder::finish() {
  LEEWAY_CHECK(!inside_, "the last document must have ended");
  if (passing_) return false;
  const size_t wanted = std::min(tail_bytes(), held_.size());
  const size_t cut = wanted < kTailBytesMin ? held_.size() : cut_of(held_.size() - wanted);
  release(cut);
  if (held_.empty()) return false;
  if (open_) builder_.end_document();  // The cut makes two documents of one.
  builder_.hold_out_rest();
  release(held_.size());
  return true;
}

// It grows more slowly than the text does, so that what was released is never missed.
size_t TailHolder::tail_bytes() const {
  const double wanted = split_.share * static_cast<double>(text_bytes_);
  return std::min(static_cast<size_t>(wanted), kTailBytesMax);
}

// Where the tail starts: after the first document or line that ends in the first half of it, else
// before a word or at least a character.
size_t TailHolder::cut_of(size_t target) const {
  const size_t limit = target + (held_.size() - target) / 2;
  const auto end = std::lower_bound(ends_.begin(), ends_.end(), target);
  if (end != ends_.end() && *end <= limit) return *end;
  if (const size_t line = held_.find('\n', target); line < limit) return line + 1;
  if (const size_t space = held_.find(' ', target); space < limit) return space;
  size_t at = target;
  while (at < limit && !starts_character(held_[at])) ++at;
  return at;
}

void TailHolder::release(size_t bytes) {
  const std::string_view text(held_);
  size_t at = 0;
  size_t ended = 0;
  for (; ended < ends_.size() && ends_[ended] <= bytes; ++ended) {
    builder_.add_text(text.substr(at, ends_[ended] - at));
    builder_.end_document();
    open_ = false;
    at = ends_[ended];
  }
  builder_.add_text(text.substr(at, bytes - at));
  open_ = open_ || at < bytes;
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(ended));
  for (size_t& end : ends_) end -= bytes;
  held_.erase(0, bytes);
}

}  // namespace leeway
