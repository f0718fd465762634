// Cuts documents into pieces of text that can be encoded independently, on any core.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_folder.h"
#include "data/document_splitter.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

// Which documents are set aside for validation: a pure function of the document's number. One
// document of every 1/share in a row is drawn at random. The first document is always for training.
struct ValidationSplit {
  double share = 0.0;  // 0: none; at most 0.5
  uint64_t seed = 0;
  bool holds(uint64_t document) const;
};

// A document, or a part of one that was too long for a piece.
struct Segment {
  size_t bytes = 0;
  bool valid = false;
  bool ends = false;  // the document's last part: its marker follows
};

struct TextPiece {
  std::string text;
  std::vector<Segment> segments;  // their bytes add up to the text

  // Memory used: if documents are a few bytes long, most of it is segments.
  size_t bytes() const { return text.size() + segments.size() * sizeof(Segment); }
};

struct EncodedPiece {
  struct Part {
    std::vector<TokenId> ids;  // markers included
    DataPart counts;
  };
  Part train;
  Part valid;
  size_t piece_bytes = 0;  // bytes() of the piece
  Status status;           // why the tokenizer could not encode it
};

EncodedPiece encode_piece(const Tokenizer& tokenizer, const TextPiece& piece);

// Collects about 64 KB per piece. A longer document is cut where the tokenizer allows it. If it
// allows no cut in 256 KB (in one endless word, say), the cut is after a line break, before a space
// or at least between two characters: only there may ids differ from those of the document encoded
// whole. The cuts depend only on the text.
class PieceBuilder final : public DocumentSink {
 public:
  static constexpr size_t kPieceBytes = 64 * 1024;
  static constexpr size_t kUncutBytesMax = 256 * 1024;

  PieceBuilder(const Tokenizer& tokenizer, ValidationSplit split,
               std::function<void(TextPiece)> submit);
  void add_text(std::string_view text) override;
  void end_document() override;
  void finish();                                   // submits the rest
  void hold_out_rest() { rest_held_out_ = true; }  // between two documents: the rest is for valid
  uint64_t document_count() const { return document_; }

 private:
  void cut();
  void close_segment(size_t bytes, bool ends);
  void submit();

  const Tokenizer& tokenizer_;
  ValidationSplit split_;
  std::function<void(TextPiece)> submit_;
  std::string text_;               // complete segments, then the open one
  std::vector<Segment> segments_;  // the complete ones
  size_t open_begin_ = 0;          // where the open segment starts in text_
  size_t cut_at_ = kPieceBytes;    // the length of text_ at which to look for a cut
  uint64_t document_ = 0;
  bool rest_held_out_ = false;
};

}  // namespace leeway
