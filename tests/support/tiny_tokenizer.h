// A byte-level BPE small enough to work out by hand: ids 0 to 255 are the bytes, then come the
// merges in order, and the last id is <|endoftext|>.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizers/byte_pair_model.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

using ByteMerges = std::vector<std::pair<std::string, std::string>>;  // raw bytes, best first

inline ByteMerges tiny_merges() {
  return {
      {"h", "e"},        // 256
      {" ", "t"},        // 257
      {" t", "he"},      // 258 " the"
      {"a", "a"},        // 259
      {"aa", "aa"},      // 260
      {"b", "c"},        // 261 beats "ab" in "abc"
      {"a", "b"},        // 262
      {"\n", "\n"},      // 263
      {"\xC3", "\xA9"},  // 264 "é"
      {" ", " "}         // 265
  };
}

inline nlohmann::json tiny_vocabulary(const ByteMerges& merges) {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    vocabulary[to_byte_alphabet(std::string(1, static_cast<char>(byte)))] = byte;
  }
  size_t id = 256;
  for (const auto& [left, right] : merges) vocabulary[to_byte_alphabet(left + right)] = id++;
  vocabulary["<|endoftext|>"] = id;
  return vocabulary;
}

inline void write_file(const Path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// vocab.bpe and encoder.json.
inline void write_tiny_gpt2(const Path& folder, const ByteMerges& merges = tiny_merges()) {
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : merges) {
    lines += to_byte_alphabet(left) + " " + to_byte_alphabet(right) + "\n";
  }
  write_file(folder / "vocab.bpe", lines);
  write_file(folder / "encoder.json", tiny_vocabulary(merges).dump());
}

// The same vocabulary as a tokenizer.json with GPT-2's split, for a test to change.
inline nlohmann::json tiny_hf(const ByteMerges& merges = tiny_merges()) {
  nlohmann::json pairs = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    pairs.push_back({to_byte_alphabet(left), to_byte_alphabet(right)});
  }
  const nlohmann::json vocabulary = tiny_vocabulary(merges);
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", vocabulary["<|endoftext|>"]}, {"content", "<|endoftext|>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", pairs}}}};
}

inline std::unique_ptr<Tokenizer> must_load(const std::string& spec) {
  auto loaded = load_tokenizer(spec);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return loaded.ok() ? std::move(loaded).value() : nullptr;
}

inline std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  EXPECT_TRUE(tokenizer.encode(text, ids).ok());
  return ids;
}

// Next to the repository, where tests run; absent on most machines.
inline Path shared_data(std::string_view name) { return Path("../shared/data") / name; }

}  // namespace leeway
