// What a recipe's data.train and data.valid name, opened and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "data/prepare.h"
#include "data/token_file.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

struct DataSpec {
  std::vector<std::string> train = {};  // a data folder, a token file, or any inputs of text
  std::vector<std::string> valid = {};  // the same; empty: the validation part of `train`
  std::string tokenizer = "bytes";      // for text; other than bytes, also of a .bin without one
  double valid_share = 0.05;            // of the documents, where text is split here
};

struct Dataset {
  TokenFile train;
  std::optional<TokenFile> valid;
  std::unique_ptr<Tokenizer> tokenizer;  // null for a token file that came without one
  int64_t vocabulary = 0;  // where unknown (a foreign .bin): one more than the largest id
};

// A data folder opens as it is; its valid.tokens is the validation data unless `valid` names some
// (of a data folder named there, valid.tokens is used, or train.tokens where that is all). A .bin
// or .tokens file opens as it is. Text is prepared into a folder under `cache`, once: as long as
// its files (names, sizes, times) and the tokenizer stay the same, that folder is used again.
// Train and validation data must come from the same tokenizer, and all ids must be in its
// vocabulary. Every file is hashed (TokenFile::open_hashed): a damaged one is an error, and the
// hash in info() tells a resumed run whether it goes on with the same data.
Result<Dataset> open_dataset(const DataSpec& spec, const Path& cache,
                             const PrepareProgress& progress);

// Text to measure a trained model on, named as `valid` above; text is encoded with the model's own
// tokenizer (null: it has none, and only token files will do).
Result<TokenFile> open_held_out(const std::string& name, const Tokenizer* tokenizer,
                                const Path& cache, const PrepareProgress& progress);

// One window of `context` inputs and its targets fits; otherwise what is there, what is needed.
Status check_windows(const TokenFile& file, int64_t context);

}  // namespace leeway
