#include "data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <optional>

namespace leeway {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped, not converted");

constexpr char kMagic[8] = {'L', 'E', 'E', 'W', 'A', 'Y', 'T', 'K'};
constexpr uint32_t kVersion = 1;

// The header on disk. 64 bytes, so that the ids after it are aligned for every vector width.
struct Header {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t token_bytes = 0;
  uint64_t count = 0;
  uint64_t vocabulary = 0;
  uint64_t tokenizer_hash = 0;
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
  uint64_t content_hash = 0;
};
static_assert(sizeof(Header) == 64);

// llm.c's header: 256 int32, the first three are magic, version and count.
constexpr size_t kLlmcHeaderBytes = 1024;
struct LlmcKind {
  int32_t magic;
  int32_t version;
  uint32_t token_bytes;
  uint64_t vocabulary;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2, 50257}, {20240801, 7, 4, 128256}};

struct Layout {
  TokenFileInfo info;
  size_t payload = 0;
};

Error promise_broken(const Path& path, uint64_t held, uint64_t promised) {
  return Error{
      fmt::format("{} has only {} of the {} ids that its header declares; prepare it again",
                  path.string(), held, promised)};
}

Result<Layout> parse_own(const Path& path, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) {
    return Error{fmt::format("{} is cut off inside its header; prepare it again", path.string())};
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    return Error{
        fmt::format("{} has version {} of the token format, but this program reads {}; "
                    "prepare it again with this program",
                    path.string(), header.version, kVersion)};
  }
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    return Error{fmt::format("{} has a damaged header (ids of {} bytes); prepare it again",
                             path.string(), header.token_bytes)};
  }
  const uint64_t payload_bytes = bytes.size() - sizeof header;
  const uint64_t held = payload_bytes / header.token_bytes;
  if (held != header.count || payload_bytes % header.token_bytes != 0) {
    return promise_broken(path, held, header.count);
  }
  const TokenFileInfo info{.count = header.count,
                           .token_bytes = header.token_bytes,
                           .vocabulary = header.vocabulary,
                           .tokenizer_hash = header.tokenizer_hash,
                           .documents = header.documents,
                           .text_bytes = header.text_bytes,
                           .content_hash = header.content_hash};
  return Layout{info, sizeof header};
}

std::optional<LlmcKind> llmc_kind(std::span<const std::byte> bytes) {
  if (bytes.size() < kLlmcHeaderBytes) return std::nullopt;
  int32_t words[2];
  std::memcpy(words, bytes.data(), sizeof words);
  for (const LlmcKind& kind : kLlmcKinds) {
    if (words[0] == kind.magic && words[1] == kind.version) return kind;
  }
  return std::nullopt;
}

Result<Layout> parse_foreign(const Path& path, std::span<const std::byte> bytes) {
  if (const auto kind = llmc_kind(bytes)) {
    uint32_t promised = 0;
    std::memcpy(&promised, bytes.data() + 2 * sizeof(int32_t), sizeof promised);
    const uint64_t held = (bytes.size() - kLlmcHeaderBytes) / kind->token_bytes;
    if (held != promised) return promise_broken(path, held, promised);
    return Layout{{.count = held, .token_bytes = kind->token_bytes, .vocabulary = kind->vocabulary},
                  kLlmcHeaderBytes};
  }
  if (path.extension() != ".bin") {
    return Error{
        fmt::format("{} is not a token file; make one with `leeway data prepare`", path.string())};
  }
  if (bytes.size() % 2 != 0) {
    return Error{
        fmt::format("{} has an odd number of bytes ({}), so it is not a file of 16-bit ids; "
                    "make it again, or use `leeway data prepare`",
                    path.string(), bytes.size())};
  }
  return Layout{{.count = bytes.size() / 2, .token_bytes = 2}, 0};
}

// Both loops are simple so that the compiler vectorizes them.
template <class Id>
uint64_t largest_of(const Id* ids, uint64_t count) {
  Id largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, ids[i]);
  return largest;
}

template <class Id>
void widen(const Id* ids, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(ids[i]);
}

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

}  // namespace

bool is_token_file(const Path& path) {
  char begin[sizeof kMagic] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(begin, sizeof begin);
  return file && has_magic(std::as_bytes(std::span(begin)));
}

TokenFile::TokenFile(Path path, MappedFile file, TokenFileInfo info, size_t payload)
    : path_(std::move(path)), file_(std::move(file)), info_(info), payload_(payload) {}

Result<TokenFile> TokenFile::open(const Path& path) {
  LEEWAY_ASSIGN(MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  LEEWAY_ASSIGN(const Layout layout,
                has_magic(bytes) ? parse_own(path, bytes) : parse_foreign(path, bytes));
  return TokenFile(path, std::move(file), layout.info, layout.payload);
}

Result<TokenFile> TokenFile::open_hashed(const Path& path) {
  LEEWAY_ASSIGN(TokenFile file, open(path));
  if (file.is_own()) {
    LEEWAY_TRY(file.check_content());
  } else {
    file.info_.content_hash = file.hash_ids();
  }
  return file;
}

bool TokenFile::is_own() const { return payload_ == sizeof(Header); }

uint64_t TokenFile::hash_ids() const { return hash_bytes(file_.bytes().subspan(payload_)); }

void TokenFile::read(uint64_t begin, std::span<int64_t> out) const {
  LEEWAY_CHECK(begin <= info_.count, "reading starts past the last id");
  LEEWAY_CHECK(out.size() <= info_.count - begin, "reading ends past the last id");
  const std::byte* ids = file_.bytes().data() + payload_;
  if (info_.token_bytes == 2) {
    widen(reinterpret_cast<const uint16_t*>(ids) + begin, out);
  } else {
    widen(reinterpret_cast<const uint32_t*>(ids) + begin, out);
  }
}

uint64_t TokenFile::largest_id() const {
  const std::byte* ids = file_.bytes().data() + payload_;
  return info_.token_bytes == 2 ? largest_of(reinterpret_cast<const uint16_t*>(ids), info_.count)
                                : largest_of(reinterpret_cast<const uint32_t*>(ids), info_.count);
}

Status TokenFile::check_ids(uint64_t vocabulary) const {
  if (info_.count == 0 || largest_id() < vocabulary) return {};
  // Something is wrong, so the time to find it no longer matters.
  int64_t id = 0;
  for (uint64_t position = 0; position < info_.count; ++position) {
    read(position, {&id, 1});
    if (static_cast<uint64_t>(id) < vocabulary) continue;
    return Error{
        fmt::format("{} has id {} at position {}, outside the vocabulary of {}; prepare "
                    "the data again with the tokenizer that the model is for",
                    path_.string(), id, position, vocabulary)};
  }
  LEEWAY_UNREACHABLE("the largest id is in the file");
  return {};
}

Status TokenFile::check_content() const {
  if (!is_own() || hash_ids() == info_.content_hash) return {};  // Foreign files have no hash.
  return Error{
      fmt::format("{} was changed after it was written (its ids do not match the hash in "
                  "its header); prepare it again",
                  path_.string())};
}

TokenFileWriter::TokenFileWriter(AtomicFile file, TokenFileInfo info)
    : file_(std::move(file)), info_(info) {}

Result<TokenFileWriter> TokenFileWriter::create(const Path& path, const Tokenizer& tokenizer) {
  LEEWAY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  const auto vocabulary = static_cast<uint64_t>(tokenizer.vocabulary());
  const TokenFileInfo info{.token_bytes = vocabulary <= 65536 ? 2U : 4U,
                           .vocabulary = vocabulary,
                           .tokenizer_hash = tokenizer.hash()};
  const Header empty;  // No magic yet: an unfinished file must not pass for a token file.
  LEEWAY_TRY(file.write(std::as_bytes(std::span(&empty, 1))));
  return TokenFileWriter(std::move(file), info);
}

Status TokenFileWriter::append(std::span<const TokenId> ids) {
  LEEWAY_CHECK(ids.empty() || largest_of(ids.data(), ids.size()) < info_.vocabulary,
               "the tokenizer gave an id outside its own vocabulary");
  std::span<const std::byte> bytes = std::as_bytes(ids);
  if (info_.token_bytes == 2) {
    narrow_.resize(ids.size());
    std::transform(ids.begin(), ids.end(), narrow_.begin(),
                   [](TokenId id) { return static_cast<uint16_t>(id); });
    bytes = std::as_bytes(std::span(narrow_));
  }
  LEEWAY_TRY(file_.write(bytes));
  hash_.add(bytes);
  info_.count += ids.size();
  return {};
}

Result<TokenFileInfo> TokenFileWriter::commit(uint64_t documents, uint64_t text_bytes) {
  info_.documents = documents;
  info_.text_bytes = text_bytes;
  info_.content_hash = hash_.digest();
  Header header{.version = kVersion,
                .token_bytes = info_.token_bytes,
                .count = info_.count,
                .vocabulary = info_.vocabulary,
                .tokenizer_hash = info_.tokenizer_hash,
                .documents = documents,
                .text_bytes = text_bytes,
                .content_hash = info_.content_hash};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  LEEWAY_TRY(file_.write_at(0, std::as_bytes(std::span(&header, 1))));
  LEEWAY_TRY(file_.commit());
  return info_;
}

}  // namespace leeway
