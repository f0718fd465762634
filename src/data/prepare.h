// Turns text into a data folder in one pass: read, find documents, encode on several cores, write
// in order. Memory grows neither with the input nor with the cores: LibTorch alone takes 115 MB;
// with the gpt2 tokenizer we measured 143 MB for plain text and at most 196 MB, with four encoders
// (the most that are used), a .zst window of 64 MiB (the largest that is accepted) and documents of
// single letters; 4 MB more for a text of few documents. Only a line of JSONL is kept whole, up to
// 64 MiB. The output does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "data/data_folder.h"
#include "data/input_files.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

// Called regularly with the stored bytes read and their total (0: unknown). Returns whether to
// continue; false stops with an error and leaves nothing behind.
using PrepareProgress = std::function<bool(uint64_t done, uint64_t total)>;

struct PrepareOptions {
  std::vector<std::string> inputs = {};   // files, folders, patterns, "-"
  std::vector<std::string> include = {};  // only files in folders with these names
  std::string documents = "auto";         // see parse_documents()
  std::string field = "text";             // of JSONL: the field with the document
  double valid_share = 0.05;              // share of the documents; of few ones: see tail_holder.h
  uint64_t seed = 0;                      // for the split
  int threads = 0;                        // 0: all cores; at most 4 are used
};

// Replaces a data folder at `out`; anything else there is an error.
Result<DataInfo> prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const Path& out,
                         const PrepareProgress& progress);

// The fingerprint that prepare() would record: equal if inputs, tokenizer and rules are.
Result<std::string> prepare_fingerprint(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace leeway
