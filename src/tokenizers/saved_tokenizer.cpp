#include "tokenizers/saved_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/hash.h"
#include "tokenizers/byte_pair_tokenizer.h"
#include "tokenizers/byte_tokenizer.h"
#include "tokenizers/hf_file.h"
#include "tokenizers/sentencepiece_tokenizer.h"

namespace leeway {
namespace {

constexpr std::string_view kDescription = "leeway_tokenizer.json";

Result<std::unique_ptr<Tokenizer>> load_kind(const std::string& kind, const Path& folder) {
  if (kind == "bytes") return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  if (kind == "sentencepiece") return load_sentencepiece(folder / kSavedSentencePiece);
  if (kind == "gpt2" || kind == "hf") {
    LEEWAY_ASSIGN(BytePairModel model, read_hf_file(folder / kSavedJson));
    model.kind = kind;
    return BytePairTokenizer::create(std::move(model));
  }
  return Error{fmt::format("{} names a tokenizer of kind '{}', which this version does not know",
                           (folder / kDescription).string(), kind)};
}

}  // namespace

Status save_tokenizer(const Tokenizer& tokenizer, const Path& folder, std::string_view name,
                      std::string_view content) {
  LEEWAY_TRY(make_folder(folder));
  if (!name.empty()) LEEWAY_TRY(write_atomically(folder / name, content));
  const nlohmann::ordered_json description = {{"kind", tokenizer.kind()},
                                              {"hash", hash_hex(tokenizer.hash())},
                                              {"vocabulary", tokenizer.vocabulary()}};
  return write_atomically(folder / kDescription, description.dump(2) + "\n");
}

Result<std::unique_ptr<Tokenizer>> load_saved_tokenizer(const Path& folder) {
  const std::string where = (folder / kDescription).string();
  LEEWAY_ASSIGN(const std::string text, read_text(where));
  const nlohmann::json description = nlohmann::json::parse(text, nullptr, false);
  const auto word = [&](const char* key) {
    const auto at = description.is_object() ? description.find(key) : description.end();
    return at != description.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  const std::string kind = word("kind");
  const std::string hash = word("hash");
  if (kind.empty() || hash.empty()) {
    return Error{where + " is damaged: it should name a kind and a hash; save the tokenizer again"};
  }
  LEEWAY_ASSIGN(std::unique_ptr<Tokenizer> tokenizer, load_kind(kind, folder));
  if (const std::string found = hash_hex(tokenizer->hash()); found != hash) {
    return Error{fmt::format("the tokenizer in {} was changed: its hash is {}, but {} was saved",
                             folder.string(), found, hash)};
  }
  return tokenizer;
}

}  // namespace leeway
