// What the files of a byte-level BPE tokenizer say, before any table is built from it. The readers
// (gpt2_files.h, hf_file.h) make one; byte_pair_tokenizer.h works with it.
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
  std::vector<TokenId> specials;    // ascending; decoded, never given by encode
  std::vector<Merge> merges;        // best first
  std::optional<TokenId> document_marker;
  SplitKind split = SplitKind::kGpt2;
  std::string pattern;
  bool ignore_merges = false;     // a piece that is a token is that token, whatever the merges say
  bool add_prefix_space = false;  // text that starts with no space gets one
  std::string json;               // the tokenizer.json it came from, kept for save()
};

// Hash of everything that decides ids: the same from GPT-2's two files and from a tokenizer.json.
uint64_t hash_model(const BytePairModel& model);

// Files write bytes as printable characters: Ġ is a space. Nothing for text that has others.
std::optional<std::string> from_byte_alphabet(std::string_view text);
std::string to_byte_alphabet(std::string_view bytes);

// The vocabulary as files write it: token text -> id.
using TokenNames = std::map<std::string, TokenId, std::less<>>;

// Sets tokens; names written outside the byte alphabet can only be decoded and become specials.
// `where` is the file, for the message. Refuses ids that are doubled or far too large, and a
// vocabulary that lacks one of the 256 bytes.
Status set_tokens(const TokenNames& names, const std::string& where, BytePairModel& model);

// A token that stands beside the vocabulary, such as <|endoftext|>.
Status add_special(const std::string& name, uint64_t id, const std::string& where,
                   BytePairModel& model);

using NamedMerge = std::pair<std::string, std::string>;
Status set_merges(const std::vector<NamedMerge>& merges, const TokenNames& names,
                  const std::string& where, BytePairModel& model);

}  // namespace leeway
