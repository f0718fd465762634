#include "data/text_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizers/unicode.h"

namespace leeway {
namespace {

struct Magic {
  std::string_view bytes;
  size_t position;
  const char* kind;
  const char* advice;
};

constexpr const char* kLeaveOut = "leave it out";
constexpr const char* kExport = "export its text as JSONL, one {\"text\": ...} per line";
constexpr const char* kFromParquet =
    "convert it to JSONL, in Python: pandas.read_parquet(FILE).to_json(\"text.jsonl\", "
    "orient=\"records\", lines=True)";
constexpr const char* kFromCsv =
    "convert it to JSONL, in Python: pandas.read_csv(\"FILE\").to_json(\"text.jsonl\", "
    "orient=\"records\", lines=True), then name its column with --field; to train on the table "
    "itself, give it on standard input";
constexpr const char* kFromTsv =
    "convert it to JSONL, in Python: pandas.read_csv(\"FILE\", sep=\"\\t\").to_json("
    "\"text.jsonl\", orient=\"records\", lines=True), then name its column with --field; to train "
    "on the table itself, give it on standard input";

std::string_view operator""_b(const char* bytes, size_t size) { return {bytes, size}; }

const Magic kMagics[] = {
    {"PAR1"_b, 0, "a Parquet file", kFromParquet},
    {"ARROW1\0"_b, 0, "an Arrow file", kExport},
    {"\xFD"
     "7zXZ\0"_b,
     0, "an xz file", "decompress it with xz -d"},
    {"1AY&SY"_b, 4, "a bzip2 file", "decompress it with bzip2 -d"},
    {"\x04\x22\x4D\x18"_b, 0, "an lz4 file", "decompress it with lz4 -d"},
    {"7z\xBC\xAF\x27\x1C"_b, 0, "a 7z archive", "unpack it with 7z x"},
    {"Rar!\x1A\x07"_b, 0, "a RAR archive", "unpack it"},
    {"PK\x03\x04"_b, 0, "a zip archive",
     "unpack it with unzip; save an office document as plain text"},
    {"ustar"_b, 257, "a tar archive", "unpack it with tar -xf and name the folder"},
    {"\x1F\x8B\x08"_b, 0, "a gzip file", "it was compressed twice: decompress it with gzip -d"},
    {"%PDF-"_b, 0, "a PDF file", "extract its text with pdftotext"},
    {"\xD0\xCF\x11\xE0"_b, 0, "an office document", "save it as plain text"},
    {"\x89PNG\r\n"_b, 0, "a PNG image", kLeaveOut},
    {"\xFF\xD8\xFF"_b, 0, "a JPEG image", kLeaveOut},
    {"GIF89a"_b, 0, "a GIF image", kLeaveOut},
    {"GIF87a"_b, 0, "a GIF image", kLeaveOut},
    {"\x7F"
     "ELF"_b,
     0, "an ELF program", kLeaveOut},
    {"\x93NUMPY"_b, 0, "a NumPy file", kExport},
    {"\x89HDF\r\n"_b, 0, "an HDF5 file", kExport},
    {"SQLite format 3\0"_b, 0, "an SQLite database", kExport},
    {"GGUF"_b, 0, "a GGUF file", kLeaveOut},
    {"LEEWAYTK"_b, 0, "a token file", "it is prepared already: name it in data.train"},
};

bool has_at(std::string_view text, size_t position, std::string_view part) {
  return text.size() >= position && text.substr(position).starts_with(part);
}

// An 8-byte size, then a JSON header: safetensors. The size's high bytes are zero.
bool is_safetensors(std::string_view begin) {
  return has_at(begin, 8, "{\"") && begin.substr(5, 3) == std::string_view("\0\0\0", 3);
}

// "\x80" and a protocol number; no UTF-8 text starts with that byte.
bool is_pickle(std::string_view begin) {
  return begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5;
}

// `kind` with its article.
NotText foreign(std::string_view kind, std::string advice) {
  return {.noun = std::string(kind.substr(kind.find(' ') + 1)),
          .what = fmt::format("{}, not text", kind),
          .advice = std::move(advice)};
}

std::optional<NotText> foreign_encoding(std::string_view begin) {
  const auto made = [](const char* name, const char* from) {
    return NotText{.noun = fmt::format("{} file", name),
                   .what = fmt::format("{}, not UTF-8", name),
                   .advice = fmt::format("convert it with iconv -f {} -t utf-8", from)};
  };
  if (begin.starts_with("\xFF\xFE\0\0"_b)) return made("UTF-32", "utf-32");
  if (begin.starts_with("\0\0\xFE\xFF"_b)) return made("UTF-32", "utf-32");
  if (begin.starts_with("\xFF\xFE"_b)) return made("UTF-16", "utf-16");
  if (begin.starts_with("\xFE\xFF"_b)) return made("UTF-16", "utf-16");
  // Without a byte order mark: in western text every other byte is zero.
  std::array<size_t, 2> zeros = {};
  const size_t seen = std::min<size_t>(begin.size(), 4096);
  for (size_t i = 0; i < seen; ++i) zeros[i % 2] += begin[i] == '\0' ? 1 : 0;
  if (seen >= 8 && zeros[1] * 4 > seen && zeros[0] == 0) return made("UTF-16", "utf-16le");
  if (seen >= 8 && zeros[0] * 4 > seen && zeros[1] == 0) return made("UTF-16", "utf-16be");
  return std::nullopt;
}

// More than one byte in a hundred is not part of a character, and it is not just a slip.
bool is_not_utf8(std::string_view begin) {
  constexpr size_t kSeen = 64 * 1024;
  constexpr size_t kSlips = 3;
  const std::string_view seen = begin.substr(0, kSeen);
  size_t broken = 0;
  for (size_t position = 0; position < seen.size();) {
    const DecodedChar character = decode_char(seen, position);
    // The last character may be cut off.
    if (!character.valid && position + 3 < seen.size()) broken += character.size;
    position += character.size;
  }
  return broken > kSlips && broken * 100 > seen.size();
}

}  // namespace

std::string NotText::sentence(std::string_view name) const {
  return fmt::format("{} is {}; {}", name, what, advice);
}

std::optional<NotText> table_of(const Path& path) {
  Path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string ending = name.extension().string();
  if (ending == ".csv" || ending == ".CSV") return foreign("a CSV table", kFromCsv);
  if (ending == ".tsv" || ending == ".TSV") return foreign("a TSV table", kFromTsv);
  return std::nullopt;
}

std::optional<NotText> not_text(std::string_view begin) {
  for (const Magic& magic : kMagics) {
    if (has_at(begin, magic.position, magic.bytes)) return foreign(magic.kind, magic.advice);
  }
  if (is_safetensors(begin)) return foreign("a safetensors file", kLeaveOut);
  if (is_pickle(begin)) return foreign("a Python pickle", kExport);
  if (auto encoding = foreign_encoding(begin)) return encoding;
  if (const size_t zero = begin.find('\0'); zero != begin.npos) return with_zero_byte(zero);
  if (is_not_utf8(begin)) {
    return NotText{.noun = "non-UTF-8 file",
                   .what = "not UTF-8 text",
                   .advice =
                       "convert text in another encoding, such as Latin-1, with "
                       "iconv -f latin1 -t utf-8"};
  }
  return std::nullopt;
}

NotText with_zero_byte(uint64_t position) {
  return {.noun = "binary file",
          .what = fmt::format("a binary file, not text (byte {} is zero)", position),
          .advice = "leave it out, or remove stray zero bytes with tr -d '\\000'"};
}

}  // namespace leeway
