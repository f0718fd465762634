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
  // Packed or plain is decided by the name (.gz, .zst), or else by the first bytes.
  static Result<std::unique_ptr<TextSource>> open(const InputFile& input);
  virtual ~TextSource() = default;

  // Fills `out` and returns its size; less only at the end of the text, 0 after it. A signal that
  // breaks off a read is an error, so that Ctrl-C works while standard input is silent.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Stored bytes read so far: what the progress of a packed file is measured in.
  virtual uint64_t stored_bytes_read() const = 0;
};

}  // namespace leeway
