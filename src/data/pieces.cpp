#include "data/pieces.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace leeway {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// A cut that the tokenizer does not guarantee to be safe, in the last half of the text if possible.
size_t forced_cut(std::string_view text) {
  const size_t half = text.size() / 2;
  if (const size_t at = text.rfind('\n'); at != text.npos && at >= half) return at + 1;
  if (const size_t at = text.rfind(' '); at != text.npos && at >= half) return at;
  size_t at = text.size();
  // The last character may be incomplete; bytes that are not UTF-8 may be cut anywhere.
  for (int back = 1; back <= 3; ++back) {
    const char byte = text[text.size() - static_cast<size_t>(back)];
    if (continues_character(byte)) continue;
    if ((static_cast<unsigned char>(byte) & 0x80U) != 0)
      at = text.size() - static_cast<size_t>(back);
    break;
  }
  return at;
}

uint64_t run_begin(double share, uint64_t run) {
  return static_cast<uint64_t>(std::ceil(static_cast<double>(run) / share));
}

}  // namespace

bool ValidationSplit::holds(uint64_t document) const {
  LEEWAY_CHECK(share >= 0.0 && share <= 0.5, "the share must be between 0 and 0.5");
  if (share == 0.0) return false;
  auto run = static_cast<uint64_t>(static_cast<double>(document) * share);
  while (run_begin(share, run) > document) --run;  // Corrects rounding.
  while (run_begin(share, run + 1) <= document) ++run;
  const uint64_t first = run == 0 ? 1 : run_begin(share, run);
  const uint64_t count = run_begin(share, run + 1) - first;
  const double draw = random_uniform({.seed = seed, .stream = Stream::kSplit}, run);
  return document == first + static_cast<uint64_t>(draw * static_cast<double>(count));
}

EncodedPiece encode_piece(const Tokenizer& tokenizer, const TextPiece& piece) {
  EncodedPiece result;
  result.piece_bytes = piece.bytes();
  std::string_view rest = piece.text;
  for (const Segment& segment : piece.segments) {
    EncodedPiece::Part& part = segment.valid ? result.valid : result.train;
    const size_t before = part.ids.size();
    if (segment.bytes > 0 && result.status.ok()) {
      result.status = tokenizer.encode(rest.substr(0, segment.bytes), part.ids);
    }
    rest.remove_prefix(segment.bytes);
    part.counts.tokens += part.ids.size() - before;
    part.counts.text_bytes += segment.bytes;
    if (!segment.ends) continue;
    ++part.counts.documents;
    if (const auto marker = tokenizer.document_marker()) {
      part.ids.push_back(*marker);
      ++part.counts.markers;
    }
  }
  LEEWAY_CHECK(rest.empty(), "the segments must add up to the text");
  return result;
}

PieceBuilder::PieceBuilder(const Tokenizer& tokenizer, ValidationSplit split,
                           std::function<void(TextPiece)> submit)
    : tokenizer_(tokenizer), split_(split), submit_(std::move(submit)) {}

void PieceBuilder::add_text(std::string_view text) {
  // Steps end exactly at cut_at_, so that the cuts do not depend on how the text arrives.
  while (!text.empty()) {
    const size_t step = std::min(text.size(), cut_at_ - text_.size());
    text_.append(text.substr(0, step));
    text.remove_prefix(step);
    if (text_.size() == cut_at_) cut();
  }
}

void PieceBuilder::end_document() {
  close_segment(text_.size() - open_begin_, true);
  ++document_;
  if (text_.size() >= kPieceBytes) submit();
}

void PieceBuilder::finish() {
  LEEWAY_CHECK(open_begin_ == text_.size(), "the last document must have ended");
  if (!segments_.empty()) submit();
}

void PieceBuilder::cut() {
  const std::string_view open = std::string_view(text_).substr(open_begin_);
  size_t at = tokenizer_.last_safe_cut(open);
  LEEWAY_CHECK(at <= open.size(), "a cut must be inside the text");
  if (at == 0 && open.size() >= kUncutBytesMax) at = forced_cut(open);
  if (at > 0) close_segment(at, false);
  if (!segments_.empty()) submit();  // Keeps the open segment.
  // If there was no cut, the open segment grows by another piece before the next try.
  cut_at_ = text_.size() + kPieceBytes;
}

void PieceBuilder::close_segment(size_t bytes, bool ends) {
  // A document may end on a cut: an empty last segment still carries its marker.
  const bool valid = rest_held_out_ || split_.holds(document_);
  segments_.push_back({.bytes = bytes, .valid = valid, .ends = ends});
  open_begin_ += bytes;
}

void PieceBuilder::submit() {
  std::string rest = text_.substr(open_begin_);
  text_.resize(open_begin_);
  submit_(
      {.text = std::exchange(text_, std::move(rest)), .segments = std::exchange(segments_, {})});
  open_begin_ = 0;
  cut_at_ = text_.size() + kPieceBytes;
}

}  // namespace leeway
