#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "../../support/tiny_tokenizer.h"
#include "tokenizers/bpe.h"
#include "tokenizers/gpt2_splitter.h"
#include "tokenizers/unicode.h"

namespace leeway {
namespace {

// One tokenizer of each kind, loaded once. The patterns are GPT-2's (handwritten) and Llama 3's.
std::vector<std::unique_ptr<Tokenizer>> load_exact_tokenizers() {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(must_load("bytes"));
  write_tiny_gpt2(folder.path());
  tokenizers.push_back(must_load("gpt2:" + folder.path().string()));
#ifdef LEEWAY_PCRE2
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const nlohmann::json split = {
      {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", pattern}}}};
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  nlohmann::json llama = tiny_hf();
  llama["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}};
  write_file(folder / "tokenizer.json", llama.dump());
  tokenizers.push_back(must_load("hf:" + (folder / "tokenizer.json").string()));
#endif
  return tokenizers;
}

const std::vector<std::unique_ptr<Tokenizer>>& exact_tokenizers() {
  static const std::vector<std::unique_ptr<Tokenizer>> loaded = load_exact_tokenizers();
  return loaded;
}

std::string any_bytes() { return *rc::gen::string<std::string>(); }

// Mixes usual text and nasty bytes in any order.
std::string any_text() {
  const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::element<std::string>("the", " the", " ", "  ", "\n", "\r\n", "\t", "a", "aaaa", "bc",
                                    "'s", "'LL", "'", "12345", "!", "_", "\xC2\xA0", "\xE3\x80\x80",
                                    "\xC3\xA9", "\xC3", "\x80", "\xFF", "<|endoftext|>"),
      rc::gen::map(rc::gen::inRange<uint32_t>(0, 0x20000), [](uint32_t code) {
        std::string text;
        if (code < 0xD800 || code >= 0xE000) append_utf8(code, text);
        return text;
      })));
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

RC_GTEST_PROP(TokenizerProperty, DecodingIsTheInverseOnAnyBytes, ()) {
  const std::string text = *rc::gen::element(any_bytes(), any_text());
  for (const auto& tokenizer : exact_tokenizers()) {
    const std::vector<TokenId> ids = ids_of(*tokenizer, text);
    for (const TokenId id : ids) RC_ASSERT(id < tokenizer->vocabulary());
    RC_ASSERT(tokenizer->decode(ids) == text);
  }
}

RC_GTEST_PROP(TokenizerProperty, SafeCutsGiveTheIdsOfTheWhole, ()) {
  const std::string text = any_text() + any_text();
  const auto seen = *rc::gen::inRange<size_t>(0, text.size() + 1);
  for (const auto& tokenizer : exact_tokenizers()) {
    // The tokenizer sees only the start: what follows must not matter.
    const size_t cut = tokenizer->last_safe_cut(std::string_view(text).substr(0, seen));
    RC_ASSERT(cut <= seen);
    std::vector<TokenId> joined = ids_of(*tokenizer, text.substr(0, cut));
    RC_ASSERT(tokenizer->encode(text.substr(cut), joined).ok());
    RC_ASSERT(joined == ids_of(*tokenizer, text));
  }
}

RC_GTEST_PROP(TokenizerProperty, AnyIdsDecode, ()) {
  const auto ids = *rc::gen::arbitrary<std::vector<TokenId>>();
  for (const auto& tokenizer : exact_tokenizers()) {
    tokenizer->decode(ids);
    tokenizer->decode(std::vector<TokenId>{static_cast<TokenId>(tokenizer->vocabulary())});
  }
}

// The simplest form of the definition, to compare the fast ones with.
std::vector<TokenId> merge_slowly(std::string_view word, const std::vector<Merge>& merges) {
  std::vector<TokenId> tokens;
  for (const char byte : word) tokens.push_back(static_cast<unsigned char>(byte));
  while (true) {
    size_t best_rank = merges.size();
    size_t best_position = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left != tokens[i] || merges[rank].right != tokens[i + 1]) continue;
        best_rank = rank;
        best_position = i;
      }
    }
    if (best_rank == merges.size()) return tokens;
    tokens[best_position] = merges[best_rank].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best_position) + 1);
  }
}

RC_GTEST_PROP(BpeProperty, ShortAndLongWordsFollowTheDefinition, ()) {
  std::array<TokenId, 256> bytes;
  for (TokenId byte = 0; byte < 256; ++byte) bytes[byte] = byte;
  // Each merge joins two letters or earlier merges; repeated pairs are left out.
  std::vector<Merge> merges;
  const auto symbol = [&] {
    return *rc::gen::oneOf(
        rc::gen::inRange<TokenId>('a', 'd'),
        rc::gen::inRange<TokenId>(256, static_cast<TokenId>(257 + merges.size())));
  };
  const auto count = *rc::gen::inRange<size_t>(0, 12);
  while (merges.size() < count) {
    const Merge merge = {symbol(), symbol(), static_cast<TokenId>(256 + merges.size())};
    const bool again = std::any_of(merges.begin(), merges.end(), [&](const Merge& earlier) {
      return earlier.left == merge.left && earlier.right == merge.right;
    });
    if (again) break;
    merges.push_back(merge);
  }
  const Bpe bpe(bytes, merges);
  const auto size = *rc::gen::element<size_t>(0, 1, 2, 7, 30, 63, 64, 65, 66, 100, 200);
  const auto word = *rc::gen::container<std::string>(size, rc::gen::element('a', 'b', 'c'));
  std::vector<TokenId> ids;
  bpe.encode(word, ids);
  RC_ASSERT(ids == merge_slowly(word, merges));
}

RC_GTEST_PROP(Gpt2SplitterProperty, PiecesJoinedAreTheText, ()) {
  static const Gpt2Splitter splitter;
  const std::string text = any_text();
  const auto cursor = splitter.walk(text);
  std::string joined;
  for (std::string_view piece = cursor->next(); !piece.empty(); piece = cursor->next()) {
    joined += piece;
  }
  RC_ASSERT(joined == text);
}

}  // namespace
}  // namespace leeway
