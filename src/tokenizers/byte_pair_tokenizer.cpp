#include "tokenizers/byte_pair_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizers/gpt2_splitter.h"
#include "tokenizers/hf_file.h"
#include "tokenizers/regex_splitter.h"
#include "tokenizers/saved_tokenizer.h"
#include "tokenizers/unicode.h"

namespace leeway {
namespace {

Result<std::unique_ptr<Splitter>> make_splitter(const BytePairModel& model) {
  switch (model.split) {
    case SplitKind::kGpt2:
      return std::unique_ptr<Splitter>(std::make_unique<Gpt2Splitter>());
    case SplitKind::kPattern:
      return make_regex_splitter(model.pattern);
    case SplitKind::kWhole:
      break;
  }
  return std::unique_ptr<Splitter>(std::make_unique<WholeSplitter>());
}

bool is_special(const BytePairModel& model, TokenId id) {
  return std::binary_search(model.specials.begin(), model.specials.end(), id);
}

std::array<TokenId, 256> byte_ids(const BytePairModel& model) {
  std::array<TokenId, 256> ids{};
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    const std::string& token = model.tokens[id];
    if (token.size() != 1 || is_special(model, static_cast<TokenId>(id))) continue;
    ids[static_cast<unsigned char>(token[0])] = static_cast<TokenId>(id);
  }
  return ids;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> BytePairTokenizer::create(BytePairModel model) {
  LEEWAY_ASSIGN(std::unique_ptr<Splitter> splitter, make_splitter(model));
  return std::unique_ptr<Tokenizer>(new BytePairTokenizer(std::move(model), std::move(splitter)));
}

BytePairTokenizer::BytePairTokenizer(BytePairModel model, std::unique_ptr<Splitter> splitter)
    : model_(std::move(model)),
      splitter_(std::move(splitter)),
      bpe_(byte_ids(model_), model_.merges),
      words_(model_.tokens, one_token_words()),
      hash_(hash_model(model_)) {}

// Leaves out tokens that the merges do not produce from their own bytes: encoding never gives them.
std::vector<TokenId> BytePairTokenizer::one_token_words() const {
  std::vector<TokenId> words;
  std::vector<TokenId> encoded;
  for (TokenId id = 0; id < model_.tokens.size(); ++id) {
    if (model_.tokens[id].empty() || is_special(model_, id)) continue;
    encoded.clear();
    if (!model_.ignore_merges) bpe_.encode(model_.tokens[id], encoded);
    if (model_.ignore_merges || (encoded.size() == 1 && encoded[0] == id)) words.push_back(id);
  }
  return words;
}

Status BytePairTokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  std::string prefixed;
  if (model_.add_prefix_space && !text.empty() && text[0] != ' ') {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  const std::unique_ptr<PieceCursor> pieces = splitter_->walk(text);
  for (std::string_view piece = pieces->next(); !piece.empty(); piece = pieces->next()) {
    if (const std::optional<TokenId> id = words_.find(piece)) {
      ids.push_back(*id);
    } else {
      bpe_.encode(piece, ids);
    }
  }
  return pieces->status();
}

std::string BytePairTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    const bool known = id < model_.tokens.size() && !model_.tokens[id].empty();
    text += known ? std::string_view(model_.tokens[id]) : kReplacementUtf8;
  }
  return text;
}

Status BytePairTokenizer::save(const Path& folder) const {
  const std::string json = model_.json.empty() ? format_hf(model_) : model_.json;
  return save_tokenizer(*this, folder, kSavedJson, json);
}

size_t BytePairTokenizer::last_safe_cut(std::string_view text) const {
  size_t cut = splitter_->last_safe_cut(text);
  // The second part must start with a space, or it would get an extra one.
  while (model_.add_prefix_space && cut > 0 && text[cut] != ' ') {
    cut = splitter_->last_safe_cut(text.substr(0, cut));
  }
  return cut;
}

}  // namespace leeway
