// The first half of a byte-level BPE tokenizer: splits text into pieces. No token crosses from one
// piece into the next.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"

namespace leeway {

// Walks through one text. The text and the Splitter must outlive it.
class PieceCursor {
 public:
  virtual ~PieceCursor() = default;
  // The next piece; empty at the end. The pieces, joined, are the text, unless status() says that
  // the walk had to stop before the end.
  virtual std::string_view next() = 0;
  virtual Status status() const { return {}; }
};

// Constant after construction: any number of cursors may walk at once.
class Splitter {
 public:
  virtual ~Splitter() = default;
  virtual std::unique_ptr<PieceCursor> walk(std::string_view text) const = 0;
  // The largest position where a piece ends no matter what follows `text`, so that the pieces of
  // the two parts are the pieces of the whole; 0: none.
  virtual size_t last_safe_cut(std::string_view text) const = 0;
};

// The whole text is one piece (a tokenizer.json without a split pattern).
class WholeSplitter final : public Splitter {
 public:
  std::unique_ptr<PieceCursor> walk(std::string_view text) const override;
  size_t last_safe_cut(std::string_view) const override { return 0; }
};

}  // namespace leeway
