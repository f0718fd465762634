// Text, token files and tokenizers.
#include <nlohmann/json.hpp>

#include "../support/data_files.h"
#include "../support/tiny_tokenizer.h"
#include "data/data_folder.h"
#include "data/prepare.h"
#include "data/token_file.h"
#include "target.h"
#include "tokenizers/saved_tokenizer.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

Path prepared(const Place& place) {
  for (const auto& entry : fs::recursive_directory_iterator(place.sample / "data")) {
    if (entry.path().filename() == kTrainName) return entry.path().parent_path();
  }
  LEEWAY_UNREACHABLE("the sample has prepared data");
}

// Ours, then llm.c's and nanoGPT's.
std::vector<std::string> token_files(const Place& place) {
  std::string foreign(1024, '\0');
  const int32_t header[] = {20240520, 1, 3};
  foreign.replace(0, sizeof header, reinterpret_cast<const char*>(header), sizeof header);
  return {must_read(prepared(place) / kTrainName), must_read(prepared(place) / kValidName),
          foreign + "abcdef", "sixteen bit ids."};
}

void read_token_file(const Place& place, std::string_view bytes) {
  for (const char* name : {"x.tokens", "x.bin"}) {
    const Path path = place.scratch / name;
    must_write(path, bytes);
    is_token_file(path);
    const auto file = TokenFile::open(path);
    if (!sound(file)) continue;
    sound(TokenFile::open_hashed(path));
    sound(file->check_ids(file->info().vocabulary));
    std::vector<int64_t> ids(file->info().count);
    file->read(0, ids);
  }
}

std::vector<std::string> data_infos(const Place& place) {
  return {must_read(prepared(place) / "data.json")};
}

void read_data_folder(const Place& place, std::string_view bytes) {
  must_write(place.scratch / "data.json", bytes);
  if (is_data_folder(place.scratch)) sound(read_data_info(place.scratch));
}

std::vector<std::string> texts(const Place&) {
  const std::string text = "{\"text\": \"one line\"}\n{\"text\": \"and \\u00e9\", \"id\": 2}\n\n";
  std::vector<std::string> all = {text, "Some text.\n\nAnd more of it.\n"};
#ifdef LEEWAY_ZLIB
  all.push_back(gzip(text));
#endif
#ifdef LEEWAY_ZSTD
  all.push_back(zstd(text));
#endif
  return all;
}

void read_text_file(const Place& place, std::string_view bytes) {
  const auto tokenizer = must(load_tokenizer("bytes"));
  for (const char* name : {"x.txt", "x.jsonl", "x.jsonl.gz", "x.jsonl.zst"}) {
    const Path path = place.scratch / name;
    must_write(path, bytes);
    sound(prepare({.inputs = {path.string()}, .threads = 1}, *tokenizer, place.scratch / "out",
                  [](uint64_t, uint64_t) { return true; }));
    static_cast<void>(remove_tree(place.scratch / "out"));
  }
}

// A tokenizer that could be loaded must also work.
void use(const Result<std::unique_ptr<Tokenizer>>& loaded) {
  if (!sound(loaded)) return;
  const Tokenizer& tokenizer = **loaded;
  const std::string text =
      "The word1 w\xC3\xA9rd, \xFF\xFE broken.\n\n  0123 " + std::string(3000, 'a') + "!";
  std::vector<TokenId> ids;
  sound(tokenizer.encode(text, ids));
  for (const TokenId id : ids) {
    LEEWAY_CHECK(id < tokenizer.vocabulary(), "an id is in the vocabulary");
  }
  ids.push_back(~TokenId{0});
  tokenizer.decode(ids);
  tokenizer.last_safe_cut(text);
  tokenizer.hash();
}

std::vector<std::string> tokenizer_jsons(const Place&) {
  nlohmann::json split = tiny_hf();
  split["model"]["ignore_merges"] = true;
  split["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern",
          {{"Regex", "(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  return {tiny_hf().dump(), split.dump(1)};
}

void read_tokenizer_json(const Place& place, std::string_view bytes) {
  must_write(place.scratch / "tokenizer.json", bytes);
  use(load_tokenizer("hf:" + (place.scratch / "tokenizer.json").string()));
}

std::vector<std::string> gpt2_file(const Place& place, const char* name) {
  write_tiny_gpt2(place.scratch);
  return {must_read(place.scratch / name)};
}

void read_gpt2(const Place& place, const char* name, std::string_view bytes) {
  write_tiny_gpt2(place.scratch);
  must_write(place.scratch / name, bytes);
  use(load_tokenizer("gpt2:" + place.scratch.string()));
}

std::vector<std::string> merges(const Place& place) { return gpt2_file(place, "vocab.bpe"); }
void read_merges(const Place& place, std::string_view bytes) {
  read_gpt2(place, "vocab.bpe", bytes);
}
std::vector<std::string> encoders(const Place& place) { return gpt2_file(place, "encoder.json"); }
void read_encoder(const Place& place, std::string_view bytes) {
  read_gpt2(place, "encoder.json", bytes);
}

// A field of a protocol buffer that has bytes.
std::string field(char number, const std::string& bytes) {
  LEEWAY_CHECK(bytes.size() < 128, "one byte has the length");
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
         bytes;
}

std::string piece(const std::string& text, float score, char type) {
  std::string number(sizeof score, '\0');
  std::memcpy(number.data(), &score, sizeof score);
  return field(1, field(1, text) + "\x15" + number + "\x18" + type);
}

// model_type: 1 unigram, 2 BPE.
std::string sentencepiece(char model_type) {
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  float score = 0;
  for (const char* text : {"\xE2\x96\x81", "a", "e", "w", "o", "r", "d", "or", "aa", "word"}) {
    model += piece(text, score -= 1, 1);
  }
  return model + field(2, std::string("\x18") + model_type) +
         field(3, field(1, "identity") + std::string("\x18\x01\x20\x01\x28\x01"));
}

std::vector<std::string> sentencepieces(const Place&) {
  return {sentencepiece(1), sentencepiece(2)};
}

void read_sentencepiece(const Place& place, std::string_view bytes) {
  must_write(place.scratch / "x.model", bytes);
  use(load_tokenizer("sentencepiece:" + (place.scratch / "x.model").string()));
}

std::vector<std::string> saved_tokenizers(const Place& place) {
  return {must_read(place.sample / "run/tokenizer/leeway_tokenizer.json")};
}

void read_saved(const Place& place, std::string_view bytes) {
  must_write(place.scratch / kSavedJson, tiny_hf().dump());
  must_write(place.scratch / "leeway_tokenizer.json", bytes);
  use(load_tokenizer("saved:" + place.scratch.string()));
}

}  // namespace

std::vector<Target> data_targets() {
  return {{"token_file", token_files, read_token_file},
          {"data_folder", data_infos, read_data_folder},
          {"text", texts, read_text_file},
          {"tokenizer_json", tokenizer_jsons, read_tokenizer_json},
          {"gpt2_merges", merges, read_merges},
          {"gpt2_encoder", encoders, read_encoder},
#ifdef LEEWAY_SENTENCEPIECE
          {"sentencepiece", sentencepieces, read_sentencepiece},
#endif
          {"saved_tokenizer", saved_tokenizers, read_saved}};
}

}  // namespace leeway::fuzz
