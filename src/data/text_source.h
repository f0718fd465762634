// Text of any size, read in blocks: plain, gzip or Zstandard, from a file or standard input.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "data/input_files.h"

namespace leeway {

class TextSource {
 public:
  // The name (.gz, .zst), or else the first bytes, decide whether the file is compressed.
  static Result<std::unique_ptr<TextSource>> open(const InputFile& input);
  virtual ~TextSource() = default;

  // Fills `out` and returns its size; less only at the end of the text, 0 after it. A signal that
  // interrupts a read is an error, so that Ctrl-C works while standard input is silent.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Stored bytes read so far, for the progress; for a compressed file, its compressed bytes.
  virtual uint64_t stored_bytes_read() const = 0;
};

}  // namespace leeway
