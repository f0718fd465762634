// Opens and checks what a recipe's data.train and data.valid name.
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
  std::vector<std::string> train = {};  // a data folder, a token file, or any text inputs
  std::vector<std::string> valid = {};  // the same; empty: the validation part of `train`
  std::string tokenizer = "bytes";      // for text; unless bytes, also for a .bin without one
  double valid_share = 0.05;            // share of the documents; only for text
  int64_t context = 0;                  // of the model: a shorter tail is no validation data
};

struct Dataset {
  TokenFile train;
  std::optional<TokenFile> valid;
  std::unique_ptr<Tokenizer> tokenizer;  // null for a token file that came without one
  int64_t vocabulary = 0;          // if unknown (a foreign .bin): one more than the largest id
  std::vector<std::string> notes;  // what was done to text that the user should know
};

// A data folder opens as it is; its valid.tokens is the validation data unless `valid` names some.
// If `valid` names a data folder, its valid.tokens is used, or else its train.tokens. A .bin or
// .tokens file opens as it is. Text is prepared once into a folder under `cache`, which is reused
// as long as its files (names, sizes, times) and the tokenizer stay the same. Train and validation
// data must come from the same tokenizer, and all ids must be in its vocabulary. Every file is
// hashed (TokenFile::open_hashed): a damaged one is an error, and the hash in info() tells a
// resumed run whether its data is still the same.
Result<Dataset> open_dataset(const DataSpec& spec, const Path& cache,
                             const PrepareProgress& progress);

struct HeldOut {
  TokenFile tokens;
  std::vector<std::string> notes;  // as in Dataset
};

// What a look at the data tells without reading it all: the files can be opened, and their headers
// and tokenizers are good. Nothing is prepared or written.
struct DataGlance {
  std::optional<TokenFile> train;  // of prepared data; none for text
  std::optional<TokenFile> valid;
  int64_t vocabulary = 0;
  uint64_t bytes = 0;  // of tokens and of text, unpacked; where not `small`, at least so many
  bool small = true;   // so little that open_dataset() takes about a second
};
inline constexpr uint64_t kGlanceBytes = 4 << 20;
Result<DataGlance> glance_at_dataset(const DataSpec& spec);

// Opens data to evaluate a trained model on, named like `valid` above. Text is encoded with the
// model's own tokenizer (null: it has none, so only token files work).
Result<HeldOut> open_held_out(const std::string& name, const Tokenizer* tokenizer,
                              const Path& cache, const PrepareProgress& progress);

// Fails unless one window of `context` inputs and its targets fits; the error says what is there
// and what is needed.
Status check_windows(const TokenFile& file, int64_t context);

}  // namespace leeway
