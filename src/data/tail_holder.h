// A text of one document, or of few, has none to set aside for validation. Its tail is, instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/document_splitter.h"
#include "data/pieces.h"

namespace leeway {

// Passes documents on to the builder, but keeps the end of the text back as long as no document has
// been set aside. The tail is the split's share of the text, but never more than 4 MiB, which is
// plenty to validate on and stays in memory. It starts at a document or a line. A tail of less than
// 1 kB would tell nothing: such a text is all for training.
class TailHolder final : public DocumentSink {
 public:
  static constexpr size_t kTailBytesMin = 1000;
  static constexpr size_t kTailBytesMax = 4 * 1024 * 1024;

  TailHolder(ValidationSplit split, PieceBuilder& builder);
  void add_text(std::string_view text) override;
  void end_document() override;
  // At the end of the last document: passes the rest on, the tail as validation data. Returns
  // whether there is a tail.
  bool finish();

 private:
  size_t tail_bytes() const;
  size_t cut_of(size_t target) const;
  void release(size_t bytes);

  ValidationSplit split_;
  PieceBuilder& builder_;
  bool passing_;             // a document has been set aside, or none is wanted
  bool inside_ = false;      // the current document has begun
  uint64_t document_ = 0;    // documents that have ended
  uint64_t text_bytes_ = 0;  // all text so far
  bool open_ = false;        // the builder has the start of a document whose end is held
  std::string held_;
  std::vector<size_t> ends_;  // where documents end in held_
};

}  // namespace leeway
