#include "data/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/atomic_folder.h"
#include "base/hash.h"
#include "base/human.h"
#include "base/process.h"
#include "data/document_splitter.h"
#include "data/json_lines.h"
#include "data/left_out.h"
#include "data/ordered_pool.h"
#include "data/pieces.h"
#include "data/tail_holder.h"
#include "data/text_check.h"
#include "data/text_source.h"
#include "data/token_file.h"

namespace leeway {
namespace {

constexpr size_t kReadBytes = 256 * 1024;
constexpr int kThreadsMax = 1024;
// Limits on text that is being encoded and not yet written. Per encoder: one piece in work, one
// waiting, and slack for slow ones. Ids take up to four times as much, so there is also a total
// limit, and only as many encoders as get two pieces each: memory does not grow with the cores.
constexpr size_t kInFlightPieces = 4;
constexpr size_t kInFlightBytesMax = 512 * 1024;
constexpr int kEncodersMax = kInFlightBytesMax / (2 * PieceBuilder::kPieceBytes);

Status check_options(const PrepareOptions& options) {
  if (options.inputs.empty()) return usage_error("no text to prepare; name files, folders or -");
  if (!(options.valid_share >= 0.0 && options.valid_share <= 0.5)) {
    return usage_error(fmt::format("the validation share is {}; it must be between 0 and 0.5",
                                   options.valid_share));
  }
  if (options.threads < 0) {
    return usage_error(
        fmt::format("{} threads; give 1 or more, or 0 for all cores", options.threads));
  }
  if (options.threads > kThreadsMax) {
    return usage_error(fmt::format("{} threads; give at most {}", options.threads, kThreadsMax));
  }
  return {};
}

Status check_target(const Path& out) {
  std::error_code code;
  const auto status = std::filesystem::status(out, code);
  if (!std::filesystem::exists(status)) return {};
  if (!std::filesystem::is_directory(status)) {
    return usage_error(fmt::format("{} is a file; name a folder for the data", out.string()));
  }
  if (std::filesystem::is_empty(out, code) || is_data_folder(out)) return {};
  return usage_error(
      fmt::format("{} contains other files and is left as it is; name a new folder for "
                  "the data",
                  out.string()));
}

std::string fingerprint_of(const PrepareOptions& options, const Tokenizer& tokenizer,
                           const std::vector<InputFile>& files) {
  constexpr int kRules = 2;  // Raise if the same text gives other ids or another split.
  const std::string rules =
      fmt::format("{} {} {} {} {} {}", kRules, hash_hex(tokenizer.hash()), options.valid_share,
                  options.seed, options.documents, options.field);
  return hash_hex(hash_text(rules, hash_inputs(files)));
}

int encoder_count(const PrepareOptions& options) {
  const int64_t wanted = options.threads > 0 ? options.threads : core_count();
  return static_cast<int>(std::min<int64_t>(wanted, kEncodersMax));
}

struct PartWriter {
  std::optional<TokenFileWriter> file;
  DataPart counts;

  Status add(const EncodedPiece::Part& part) {
    counts.tokens += part.counts.tokens;
    counts.markers += part.counts.markers;
    counts.documents += part.counts.documents;
    counts.text_bytes += part.counts.text_bytes;
    return part.ids.empty() ? Status() : file->append(part.ids);
  }
  Status commit() {
    const auto info = file->commit(counts.documents, counts.text_bytes);
    return info ? Status() : Status(info.error());
  }
};

// The calling thread reads and writes; the pool's threads encode.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, const Tokenizer& tokenizer, DocumentOptions documents,
              const PrepareProgress& progress)
      : options_(options),
        tokenizer_(tokenizer),
        progress_(progress),
        in_flight_bytes_max_(
            std::min(kInFlightBytesMax, kInFlightPieces * PieceBuilder::kPieceBytes *
                                            static_cast<size_t>(encoder_count(options)))),
        builder_(tokenizer, {options.valid_share, options.seed},
                 [this](TextPiece piece) { submit(std::move(piece)); }),
        tail_({options.valid_share, options.seed}, builder_),
        splitter_(std::move(documents), tail_),
        pool_(encoder_count(options),
              [this](const TextPiece& piece) { return encode_piece(tokenizer_, piece); }) {}

  Status run(const std::vector<InputFile>& files, const Path& folder);
  const DataPart& train() const { return train_.counts; }
  const DataPart& valid() const { return valid_.counts; }
  bool valid_is_tail() const { return valid_is_tail_; }
  const LeftOut& left_out() const { return left_out_; }

 private:
  Status open_writers(const Path& folder);
  Status read_file(const InputFile& file);
  Result<std::optional<NotText>> read_if_text(const InputFile& file);
  Status read_text(TextSource& source, const InputFile& file, size_t first);
  Status read_json_lines(TextSource& source, const InputFile& file, size_t first);
  Result<size_t> read_block(TextSource& source);
  Status tell(uint64_t done);
  void submit(TextPiece piece);
  void write(const EncodedPiece& piece);

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const PrepareProgress& progress_;
  size_t in_flight_bytes_max_;
  PieceBuilder builder_;
  TailHolder tail_;
  DocumentSplitter splitter_;
  LeftOut left_out_;
  bool valid_is_tail_ = false;
  PartWriter train_;
  PartWriter valid_;
  Status written_;  // the first error of an encoder or the disk
  uint64_t bytes_before_ = 0;
  uint64_t bytes_total_ = 0;
  size_t in_flight_bytes_ = 0;
  std::vector<char> block_ = std::vector<char>(kReadBytes);
  OrderedPool<TextPiece, EncodedPiece>
      pool_;  // last: its threads end before the members that they use
};

Status Preparation::open_writers(const Path& folder) {
  LEEWAY_ASSIGN(TokenFileWriter train, TokenFileWriter::create(folder / kTrainName, tokenizer_));
  train_.file.emplace(std::move(train));
  if (options_.valid_share == 0.0) return {};
  LEEWAY_ASSIGN(TokenFileWriter valid, TokenFileWriter::create(folder / kValidName, tokenizer_));
  valid_.file.emplace(std::move(valid));
  return {};
}

Status Preparation::tell(uint64_t done) {
  if (!progress_ || progress_(done, bytes_total_)) return {};
  return stopped_error("stopped before the end; nothing was written");
}

void Preparation::submit(TextPiece piece) {
  in_flight_bytes_ += piece.bytes();
  pool_.push(std::move(piece));
  while (in_flight_bytes_ > in_flight_bytes_max_) write(pool_.pop());
  while (const auto done = pool_.try_pop()) write(*done);
}

void Preparation::write(const EncodedPiece& piece) {
  in_flight_bytes_ -= piece.piece_bytes;
  if (written_.ok()) written_ = piece.status;
  if (written_.ok()) written_ = train_.add(piece.train);
  if (written_.ok()) written_ = valid_.add(piece.valid);
}

Result<size_t> Preparation::read_block(TextSource& source) {
  auto got = source.read(block_);
  // Before the error: a signal makes a read fail, and then the stop is what to report.
  LEEWAY_TRY(tell(bytes_before_ + source.stored_bytes_read()));
  return got;
}

Status Preparation::read_file(const InputFile& file) {
  LEEWAY_ASSIGN(const std::optional<NotText> foreign, read_if_text(file));
  if (!foreign) return {};
  if (!file.found) return Error{foreign->sentence(file.name())};
  left_out_.add_file(file, *foreign);
  bytes_before_ += file.bytes;
  return {};
}

Result<std::optional<NotText>> Preparation::read_if_text(const InputFile& file) {
  if (auto table = table_of(file.path)) return table;
  const auto opened = TextSource::open(file);
  LEEWAY_TRY(tell(bytes_before_));
  if (!opened) return opened.error();
  TextSource& source = **opened;
  LEEWAY_ASSIGN(const size_t first, read_block(source));
  const std::string_view begin(block_.data(), first);
  if (auto foreign = not_text(begin)) return foreign;
  const bool json_lines =
      is_named_json_lines(file.path) ||
      (options_.documents == "auto" && starts_json_lines(begin, options_.field));
  LEEWAY_TRY(json_lines ? read_json_lines(source, file, first) : read_text(source, file, first));
  bytes_before_ += source.stored_bytes_read();
  return std::optional<NotText>();
}

// `first`: the size of the block that has been read already.
Status Preparation::read_text(TextSource& source, const InputFile& file, size_t first) {
  uint64_t before = 0;
  for (size_t got = first; got > 0;) {
    const std::string_view block(block_.data(), got);
    // Too late to leave the file out: its start is on the way.
    if (const size_t zero = block.find('\0'); zero != block.npos) {
      return Error{with_zero_byte(before + zero).sentence(file.name())};
    }
    splitter_.add(block);
    LEEWAY_TRY(written_);
    before += got;
    LEEWAY_ASSIGN(got, read_block(source));
  }
  splitter_.end_file();
  return {};
}

Status Preparation::read_json_lines(TextSource& source, const InputFile& file, size_t first) {
  JsonLines lines(options_.field, tail_);
  for (size_t got = first; got > 0;) {
    lines.add({block_.data(), got});
    LEEWAY_TRY(written_);
    LEEWAY_ASSIGN(got, read_block(source));
  }
  lines.end_file();
  if (lines.broken_count() == 0) return {};
  if (lines.document_count() == 0 && !file.found) {
    return Error{no_document_in(file, lines, options_.field)};
  }
  left_out_.add_lines(file, lines);
  return {};
}

Status Preparation::run(const std::vector<InputFile>& files, const Path& folder) {
  const bool sizes_known =
      std::all_of(files.begin(), files.end(), [](const InputFile& f) { return f.size_known; });
  for (const InputFile& file : files) bytes_total_ += file.bytes;
  if (!sizes_known) bytes_total_ = 0;
  LEEWAY_TRY(open_writers(folder));
  for (const InputFile& file : files) LEEWAY_TRY(read_file(file));
  valid_is_tail_ = tail_.finish();
  builder_.finish();
  while (!pool_.empty()) write(pool_.pop());
  LEEWAY_TRY(written_);
  if (builder_.document_count() == 0) {
    const std::vector<std::string> why = left_out_.notes(options_.field);
    return Error{fmt::format(
        "there is no text in the input ({}, {}); name files with text",
        counted(files.size(), "file"),
        why.empty() ? "nothing but white space" : fmt::format("{}", fmt::join(why, "; ")))};
  }
  LEEWAY_TRY(train_.commit());
  if (valid_.counts.documents > 0) LEEWAY_TRY(valid_.commit());
  valid_.file
      .reset();  // Never committed: removes its temporary file before the folder is complete.
  return {};
}

}  // namespace

Result<std::string> prepare_fingerprint(const PrepareOptions& options, const Tokenizer& tokenizer) {
  LEEWAY_ASSIGN(const auto files, find_inputs(options.inputs, options.include));
  return fingerprint_of(options, tokenizer, files);
}

Result<DataInfo> prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const Path& out,
                         const PrepareProgress& progress) {
  LEEWAY_TRY(check_options(options));
  LEEWAY_ASSIGN(const DocumentOptions documents, parse_documents(options.documents));
  LEEWAY_TRY(check_target(out));
  LEEWAY_ASSIGN(const auto files, find_inputs(options.inputs, options.include));
  LEEWAY_ASSIGN(AtomicFolder folder, AtomicFolder::create(out));

  release_freed_memory();  // Loading a vocabulary leaves about 10 MB of holes.
  Preparation work(options, tokenizer, documents, progress);
  LEEWAY_TRY(work.run(files, folder.path()));
  DataInfo info{.train = work.train(),
                .valid = std::nullopt,
                .tokenizer_kind = std::string(tokenizer.kind()),
                .tokenizer_hash = hash_hex(tokenizer.hash()),
                .vocabulary = tokenizer.vocabulary(),
                .inputs = options.inputs,
                .files = files.size() - work.left_out().file_count(),
                .documents = options.documents,
                .valid_share = options.valid_share,
                .seed = options.seed,
                .valid_is_tail = work.valid_is_tail(),
                .notes = work.left_out().notes(options.field),
                .fingerprint = fingerprint_of(options, tokenizer, files)};
  if (work.valid().documents > 0) info.valid = work.valid();
  LEEWAY_TRY(make_folder(folder.path() / kTokenizerName));
  LEEWAY_TRY(tokenizer.save(folder.path() / kTokenizerName));
  LEEWAY_TRY(write_data_info(folder.path(), info));
  LEEWAY_TRY(folder.commit());
  return info;
}

}  // namespace leeway
