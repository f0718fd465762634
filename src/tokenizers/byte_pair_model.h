// The content of a byte-level BPE tokenizer's files, before any table is built from it.
// gpt2_files.h and hf_file.h read it; byte_pair_tokenizer.h uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizers/bpe.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

enum class SplitKind {
  kGpt2,     // GPT-2's pattern
  kPattern,  // another one, in `pattern`
  kWhole,    // no split
};

struct BytePairModel {
  std::string kind;                 // "gpt2" or "hf"
  std::vector<std::string> tokens;  // bytes by id; empty: no token has this id
  std::vector<TokenId> specials;    // ascending; decode() knows them, encode() never returns them
  std::vector<Merge> merges;        // best first
  std::optional<TokenId> document_marker;
  SplitKind split = SplitKind::kGpt2;
  std::string pattern;
  bool ignore_merges = false;     // a piece that is itself a token is not split by merges
  bool add_prefix_space = false;  // adds a space to text that does not start with one
  std::string json;               // the tokenizer.json it came from, kept for save()
};

// Hash of everything that decides ids: the same for GPT-2's two files and for a tokenizer.json.
uint64_t hash_model(const BytePairModel& model);

// Files write bytes as printable characters: Ġ is a space. Returns nothing for text with other
// characters.
std::optional<std::string> from_byte_alphabet(std::string_view text);
std::string to_byte_alphabet(std::string_view bytes);

// The vocabulary as files write it: token text -> id.
using TokenNames = std::map<std::string, TokenId, std::less<>>;

// Sets tokens; names outside the byte alphabet can only be decoded and become specials. `where` is
// the file, for the message. Rejects ids that are duplicate or far too large, and a vocabulary that
// lacks one of the 256 bytes.
Status set_tokens(const TokenNames& names, const std::string& where, BytePairModel& model);

// Adds a token outside the vocabulary, such as <|endoftext|>.
Status add_special(const std::string& name, uint64_t id, const std::string& where,
                   BytePairModel& model);

using NamedMerge = std::pair<std::string, std::string>;
Status set_merges(const std::vector<NamedMerge>& merges, const TokenNames& names,
                  const std::string& where, BytePairModel& model);

}  // namespace leeway
