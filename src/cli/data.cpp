// leeway data prepare | info
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/human.h"
#include "cli/commands.h"
#include "config/nearest.h"
#include "data/data_folder.h"
#include "data/document_splitter.h"
#include "data/prepare.h"
#include "data/token_file.h"
#include "drivers/threads/wall_clock.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "tokenizers/tokenizer.h"

namespace leeway::cli {
namespace {

struct PrepareArguments {
  PrepareOptions options;
  std::string tokenizer = "bytes";
  std::string out;
};

std::string part_words(const DataPart& part) {
  std::string words =
      fmt::format("{} in {}", counted(part.tokens, "token"), counted(part.documents, "document"));
  if (part.markers > 0) words += fmt::format(" (+{})", counted(part.markers, "marker"));
  return words;
}

DataPart sum_of(const DataInfo& info) {
  DataPart sum = info.train;
  if (!info.valid) return sum;
  sum.tokens += info.valid->tokens;
  sum.markers += info.valid->markers;
  sum.documents += info.valid->documents;
  sum.text_bytes += info.valid->text_bytes;
  return sum;
}

// The size of the validation part, or why there is none.
std::string split_words(const DataInfo& info) {
  if (info.valid) {
    return fmt::format("valid      {}, {} of text{}", part_words(*info.valid),
                       human_bytes(info.valid->text_bytes),
                       info.valid_is_tail ? ": its end, because it has too few documents "
                                            "(--valid-share 0 goes without)"
                                          : "");
  }
  if (info.valid_share == 0.0) return "valid      none: --valid-share is 0";
  return fmt::format(
      "valid      none: {} and {} of text are too little to hold {:g} % out; raise "
      "--valid-share, or prepare separate validation text",
      counted(info.train.documents, "document"), human_bytes(info.train.text_bytes),
      100 * info.valid_share);
}

void print_info(const Path& folder, const DataInfo& info) {
  const DataPart sum = sum_of(info);
  // A tail may be the second half of a document that the first half belongs to as well.
  fmt::print("{}: {}, {} of text\n", folder.string(),
             info.valid_is_tail ? counted(sum.tokens, "token") : part_words(sum),
             human_bytes(sum.text_bytes));
  fmt::print("train      {}, {} of text\n", part_words(info.train),
             human_bytes(info.train.text_bytes));
  fmt::print("{}\n", split_words(info));
  fmt::print("tokenizer  {}, vocabulary {}, hash {}\n", info.tokenizer_kind,
             human_count(static_cast<uint64_t>(info.vocabulary)), info.tokenizer_hash);
  for (const std::string& note : info.notes) fmt::print("{}\n", note);
}

Status check_documents(const std::string& rule) {
  const auto parsed = parse_documents(rule);
  if (parsed) return {};
  const auto meant = nearest(rule, {kDocumentRules.begin(), kDocumentRules.end()});
  return usage_error(fmt::format("--documents: {}{}", parsed.error().message,
                                 meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

Status run_prepare(const PrepareArguments& arguments) {
  LEEWAY_TRY(check_documents(arguments.options.documents));
  LEEWAY_ASSIGN(const auto tokenizer, load_tokenizer(arguments.tokenizer));
  const threads::WallClock clock;
  watch_for_interrupt();
  std::unique_ptr<Progress> progress;  // created at the first report, when the total is known
  const auto report = [&](uint64_t done, uint64_t total) {
    if (!progress) progress = std::make_unique<Progress>(clock, "preparing", total);
    progress->show(done, human_bytes(done));
    return !interrupted();
  };
  const auto info = prepare(arguments.options, *tokenizer, arguments.out, report);
  if (!info) {
    progress.reset();  // clears the bar before the error is printed
    return info.error();
  }
  if (progress) progress->finish(counted(info->files, "file"));
  print_info(arguments.out, *info);
  return {};
}

Status print_token_file(const Path& path) {
  LEEWAY_ASSIGN(const TokenFile file, TokenFile::open(path));
  LEEWAY_TRY(file.check_content());
  const TokenFileInfo& info = file.info();
  if (info.vocabulary > 0) LEEWAY_TRY(file.check_ids(info.vocabulary));
  fmt::print("{}: {} of {} bits, largest {}\n", path.string(), counted(info.count, "id"),
             8 * info.token_bytes, file.largest_id());
  fmt::print("vocabulary {}\n", info.vocabulary == 0 ? "unknown" : human_count(info.vocabulary));
  fmt::print("content    hash {}\n", hash_hex(info.content_hash));
  if (info.tokenizer_hash == 0) return {};  // Files from other programs have no more metadata.
  fmt::print("tokenizer  hash {}\n", hash_hex(info.tokenizer_hash));
  fmt::print("text       {} in {}\n", human_bytes(info.text_bytes),
             counted(info.documents, "document"));
  return {};
}

Status run_info(const Path& path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return print_token_file(path);
  LEEWAY_ASSIGN(const DataInfo info, read_data_info(path));
  std::vector<std::string> hashes;
  for (const char* name : {kTrainName, kValidName}) {
    if (name == kValidName && !info.valid) continue;
    LEEWAY_ASSIGN(const TokenFile file, TokenFile::open(path / name));
    LEEWAY_TRY(file.check_content());
    LEEWAY_TRY(file.check_ids(static_cast<uint64_t>(info.vocabulary)));
    hashes.push_back(fmt::format("{} hash {}", name == kTrainName ? "train" : "valid",
                                 hash_hex(file.info().content_hash)));
  }
  print_info(path, info);
  // What machines compare that train one run.
  fmt::print("content    {}\n", fmt::join(hashes, ", "));
  fmt::print("from       {} in {}: {}\n", counted(info.files, "file"),
             counted(info.inputs.size(), "input"), fmt::join(info.inputs, " "));
  return {};
}

void add_prepare(CLI::App& data, Action& chosen) {
  CLI::App* command = data.add_subcommand("prepare", "Turn text into token files");
  command->footer(
      "Examples:\n"
      "  leeway data prepare corpus.txt.zst --tokenizer gpt2:gpt2-bpe --out out/corpus\n"
      "  leeway data prepare src --include '*.py' --out out/code\n"
      "  leeway data prepare 'dumps/*.jsonl.gz' --field body --out out/dumps\n"
      "  zcat posts.gz | leeway data prepare - --documents line --out out/posts");
  const auto arguments = std::make_shared<PrepareArguments>();
  PrepareOptions& options = arguments->options;
  command
      ->add_option(
          "input", options.inputs,
          "UTF-8 text or JSONL, plain or compressed (.gz, .zst): files, folders, quoted patterns, "
          "or - for standard input. Other files are refused, and skipped in folders and patterns")
      ->required();
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "bytes, gpt2:DIR, sentencepiece:FILE, hf:tokenizer.json or saved:FOLDER")
      ->capture_default_str();
  command
      ->add_option("--out", arguments->out,
                   "Folder to create; earlier output of this command is replaced")
      ->required();
  command
      ->add_option(
          "--documents", options.documents,
          "What counts as a document: auto (a file, or text between <|endoftext|> or <doc> tags), "
          "file, line, blank-line, or your own separator (separator:WORD for a single word). In "
          "JSONL, each line is one")
      ->capture_default_str();
  command->add_option("--field", options.field, "Field of a JSONL line that has the text")
      ->capture_default_str();
  command
      ->add_option("--valid-share", options.valid_share,
                   "Share of documents held out for validation, 0 to 0.5; of a text with too few "
                   "documents, its end (at most 4 MiB)")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Seed for choosing the held-out documents")
      ->capture_default_str();
  command
      ->add_option("--include", options.include,
                   "In folders, read only files whose name matches; repeatable")
      ->type_size(1)
      ->allow_extra_args(false);
  command
      ->add_option("--threads", options.threads,
                   "Encoder threads, at most 4; 0: as many as there are cores, up to 4")
      ->capture_default_str();
  command->callback([arguments, &chosen] { chosen = [=] { return run_prepare(*arguments); }; });
}

}  // namespace

void add_data(CLI::App& app, Action& chosen) {
  CLI::App* data =
      app.add_subcommand("data", "Prepare text for training, or inspect prepared data");
  data->require_subcommand(1);
  data->footer("Example:\n  leeway data prepare corpus.txt --out out/corpus");
  add_prepare(*data, chosen);

  CLI::App* info = data->add_subcommand("info", "Check and describe prepared data");
  info->footer("Examples:\n  leeway data info out/corpus\n  leeway data info train.bin");
  const auto path = std::make_shared<std::string>();
  info->add_option("data", *path, "Folder written by `leeway data prepare`, or a token file")
      ->required();
  info->callback([path, &chosen] { chosen = [=] { return run_info(*path); }; });
}

}  // namespace leeway::cli
