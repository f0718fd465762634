// A folder made by `leeway data prepare`: train.tokens, valid.tokens (where there is a validation
// part), tokenizer/ and data.json, which says what they are.
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
  uint64_t markers = 0;    // written after documents, where the tokenizer has a marker
  uint64_t documents = 0;  // with some text
  uint64_t text_bytes = 0;
};

struct DataInfo {
  DataPart train;
  std::optional<DataPart> valid;
  std::string tokenizer_kind;
  std::string tokenizer_hash;
  int64_t vocabulary = 0;
  std::vector<std::string> inputs;  // as given
  uint64_t files = 0;               // that they led to
  std::string documents;            // the rule that found the documents
  double valid_share = 0.0;         // as asked for
  uint64_t seed = 0;
  std::string fingerprint;  // of the inputs' names, sizes and times, the tokenizer and the rules
};

inline constexpr const char* kTrainName = "train.tokens";
inline constexpr const char* kValidName = "valid.tokens";
inline constexpr const char* kTokenizerName = "tokenizer";

bool is_data_folder(const Path& folder);
Status write_data_info(const Path& folder, const DataInfo& info);
Result<DataInfo> read_data_info(const Path& folder);

}  // namespace leeway
