// A folder made by `leeway data prepare`: train.tokens, valid.tokens (if there is a validation
// part), tokenizer/ and data.json, which describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// One of the two parts of a corpus.
struct DataPart {
  uint64_t tokens = 0;     // without document markers
  uint64_t markers = 0;    // written after documents, if the tokenizer has a marker
  uint64_t documents = 0;  // those with some text
  uint64_t text_bytes = 0;
};

struct DataInfo {
  DataPart train;
  std::optional<DataPart> valid;
  std::string tokenizer_kind;
  std::string tokenizer_hash;
  int64_t vocabulary = 0;
  std::vector<std::string> inputs;  // as given
  uint64_t files = 0;               // number of files found
  std::string documents;            // the rule that found the documents
  double valid_share = 0.0;         // as given
  uint64_t seed = 0;
  bool valid_is_tail = false;      // `valid` is the end of the text, not documents drawn from it
  std::vector<std::string> notes;  // what was left out of the inputs, one sentence each
  std::string fingerprint;  // hash of the inputs' names, sizes and times, the tokenizer, the rules
};

inline constexpr const char* kTrainName = "train.tokens";
inline constexpr const char* kValidName = "valid.tokens";
inline constexpr const char* kTokenizerName = "tokenizer";

bool is_data_folder(const Path& folder);
Status write_data_info(const Path& folder, const DataInfo& info);
Result<DataInfo> read_data_info(const Path& folder);

}  // namespace leeway
