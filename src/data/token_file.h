// A memory-mapped file of token ids, 16 or 32 bit, with a header that describes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/result.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

struct TokenFileInfo {
  uint64_t count = 0;           // ids, document markers included
  uint32_t token_bytes = 2;     // 2 or 4
  uint64_t vocabulary = 0;      // 0: unknown (a foreign .bin)
  uint64_t tokenizer_hash = 0;  // 0: unknown
  uint64_t documents = 0;
  uint64_t text_bytes = 0;    // size of the text that the ids came from, for bits per byte
  uint64_t content_hash = 0;  // hash of the ids; 0: a foreign .bin that was not hashed
};

// Whether the file starts like our own format (so that text named *.tokens stays text).
bool is_token_file(const Path& path);

class TokenFile {
 public:
  // Reads our own format, llm.c's .bin with a header (recognized by its magic number), and
  // nanoGPT's headerless uint16 (only if the name ends in .bin).
  static Result<TokenFile> open(const Path& path);
  // Like open(), and hashes every id. A file of ours must match the hash in its header; a foreign
  // file, which has none, gets its hash in info().
  static Result<TokenFile> open_hashed(const Path& path);

  const TokenFileInfo& info() const { return info_; }
  const Path& path() const { return path_; }
  // Copies ids [begin, begin + out.size()) widened to 64 bits, as the model needs them.
  void read(uint64_t begin, std::span<int64_t> out) const;
  uint64_t largest_id() const;  // 0 for an empty file
  // Checks every id against `vocabulary`; the error names the first one outside and its position.
  Status check_ids(uint64_t vocabulary) const;
  // Hashes the ids and compares with the hash in the header.
  Status check_content() const;

 private:
  TokenFile(Path path, MappedFile file, TokenFileInfo info, size_t payload);
  bool is_own() const;
  uint64_t hash_ids() const;
  Path path_;
  MappedFile file_;
  TokenFileInfo info_;
  size_t payload_ = 0;  // offset of the first id
};

// Written in pieces; appears only at commit().
class TokenFileWriter {
 public:
  static Result<TokenFileWriter> create(const Path& path, const Tokenizer& tokenizer);
  Status append(std::span<const TokenId> ids);
  // Fills in the header and renames.
  Result<TokenFileInfo> commit(uint64_t documents, uint64_t text_bytes);

 private:
  TokenFileWriter(AtomicFile file, TokenFileInfo info);
  AtomicFile file_;
  TokenFileInfo info_;
  StreamingHash hash_;
  std::vector<uint16_t> narrow_;  // reused by append()
};

}  // namespace leeway
