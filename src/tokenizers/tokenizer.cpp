#include "tokenizers/tokenizer.h"

#include <utility>

#include "tokenizers/byte_pair_tokenizer.h"
#include "tokenizers/byte_tokenizer.h"
#include "tokenizers/gpt2_files.h"
#include "tokenizers/hf_file.h"
#include "tokenizers/saved_tokenizer.h"
#include "tokenizers/sentencepiece_tokenizer.h"

namespace leeway {
namespace {

Result<std::unique_ptr<Tokenizer>> with_tables(Result<BytePairModel> model) {
  if (!model.ok()) return model.error();
  return BytePairTokenizer::create(std::move(model).value());
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& spec) {
  if (spec == "bytes") return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string place = colon == std::string::npos ? "" : spec.substr(colon + 1);
  const bool known = kind == "gpt2" || kind == "sentencepiece" || kind == "hf" || kind == "saved";
  if (!known) {
    return usage_error("unknown tokenizer '" + spec +
                       "'; use bytes, gpt2:DIR, sentencepiece:FILE or hf:FILE");
  }
  if (place.empty()) {
    const bool folder = kind == "gpt2" || kind == "saved";
    return usage_error("tokenizer '" + spec + "' needs a path: " + kind +
                       (folder ? ":DIR" : ":FILE"));
  }
  if (kind == "gpt2") return with_tables(read_gpt2_folder(place));
  if (kind == "hf") return with_tables(read_hf_file(place));
  if (kind == "sentencepiece") return load_sentencepiece(place);
  return load_saved_tokenizer(place);
}

}  // namespace leeway
