#include "recipe/vocabulary.h"

#include "data/data_folder.h"
#include "data/token_file.h"
#include "tokenizers/tokenizer.h"

namespace leeway {
namespace {

Result<int64_t> vocabulary_of_tokenizer(const std::string& spec) {
  LEEWAY_ASSIGN(const auto tokenizer, load_tokenizer(spec));
  return tokenizer->vocabulary();
}

}  // namespace

Result<int64_t> recipe_vocabulary(const DataOptions& data) {
  const Path first = data.train.front();
  const bool folder = is_data_folder(first);
  const bool tokens = folder || first.extension() == ".bin" || is_token_file(first);
  if (!tokens) return vocabulary_of_tokenizer(data.tokenizer);
  LEEWAY_ASSIGN(const TokenFile file, TokenFile::open(folder ? first / kTrainName : first));
  if (file.info().vocabulary > 0) return static_cast<int64_t>(file.info().vocabulary);
  if (data.tokenizer != "bytes") return vocabulary_of_tokenizer(data.tokenizer);
  return static_cast<int64_t>(file.largest_id()) + 1;
}

}  // namespace leeway
