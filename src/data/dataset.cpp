#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file_turn.h"
#include "base/hash.h"
#include "base/human.h"
#include "data/data_folder.h"
#include "data/text_check.h"
#include "data/text_source.h"

namespace leeway {
namespace fs = std::filesystem;
namespace {

// The data of one side (train or valid) of a recipe.
struct Side {
  std::optional<TokenFile> file;  // the data itself
  std::optional<TokenFile> held;  // for `train`: the validation part next to it
  std::unique_ptr<Tokenizer> tokenizer;
  bool held_is_tail = false;
  bool from_text = false;
  std::vector<std::string> notes;  // for text: what preparing it left out
};

using Opener = Result<TokenFile> (*)(const Path&);  // TokenFile::open_hashed or TokenFile::open

enum class Named { kFolder, kTokens, kText };

bool names_tokens(const std::string& name) {
  return Path(name).extension() == ".bin" || is_token_file(name);
}

Result<Named> what_is_named(const std::string& key, const std::vector<std::string>& names) {
  if (names.size() == 1) {
    if (is_data_folder(names[0])) return Named::kFolder;
    if (names_tokens(names[0])) return Named::kTokens;
    return Named::kText;
  }
  for (const std::string& name : names) {
    if (!is_data_folder(name) && !names_tokens(name)) continue;
    return usage_error(
        fmt::format("{} names {} and {} more; prepared data must be the only entry: "
                    "prepare all texts into one folder",
                    key, name, names.size() - 1));
  }
  return Named::kText;
}

Result<std::unique_ptr<Tokenizer>> load_beside(const TokenFile& file) {
  const Path folder = file.path().parent_path() / kTokenizerName;
  std::error_code code;
  if (!fs::is_directory(folder, code)) return std::unique_ptr<Tokenizer>();
  LEEWAY_ASSIGN(auto tokenizer, load_tokenizer("saved:" + folder.string()));
  if (tokenizer->hash() == file.info().tokenizer_hash) return tokenizer;
  return Error{
      fmt::format("the tokenizer in {} is not the one that made {}; prepare the data again",
                  folder.string(), file.path().string())};
}

// Without `with_held` the validation part is not opened, which saves hashing it.
Result<Side> open_folder(const Path& folder, bool with_held, Opener open = TokenFile::open_hashed) {
  Side side;
  LEEWAY_ASSIGN(TokenFile train, open(folder / kTrainName));
  side.file.emplace(std::move(train));
  std::error_code code;
  if (with_held && fs::exists(folder / kValidName, code)) {
    LEEWAY_ASSIGN(TokenFile valid, open(folder / kValidName));
    side.held.emplace(std::move(valid));
  }
  const auto info = read_data_info(folder);
  side.held_is_tail = side.held && info.ok() && info->valid_is_tail;
  LEEWAY_ASSIGN(side.tokenizer, load_beside(*side.file));
  return side;
}

Result<Side> open_tokens(const Path& path, Opener open = TokenFile::open_hashed) {
  Side side;
  LEEWAY_ASSIGN(TokenFile file, open(path));
  side.file.emplace(std::move(file));
  if (side.file->info().tokenizer_hash != 0) {
    LEEWAY_ASSIGN(side.tokenizer, load_beside(*side.file));
  }
  return side;
}

Status check_readable_twice(const std::vector<std::string>& inputs) {
  if (std::find(inputs.begin(), inputs.end(), "-") == inputs.end()) return {};
  return usage_error(
      "a recipe cannot read standard input, because it may have to read it twice; prepare "
      "it with `leeway data prepare -`");
}

Result<Side> open_text(const PrepareOptions& options, const Tokenizer& tokenizer, const Path& cache,
                       const PrepareProgress& progress) {
  LEEWAY_TRY(check_readable_twice(options.inputs));
  LEEWAY_ASSIGN(const std::string fingerprint, prepare_fingerprint(options, tokenizer));
  const Path folder = cache / fingerprint;
  const bool with_held = options.valid_share > 0.0;
  const auto open = [&](const DataInfo& info) -> Result<Side> {
    LEEWAY_ASSIGN(Side side, open_folder(folder, with_held));
    side.from_text = true;
    side.notes = info.notes;
    return side;
  };
  // A damaged cached folder is made again without an error.
  const auto cached = [&]() -> std::optional<Side> {
    const auto known = read_data_info(folder);
    if (!known.ok() || known->fingerprint != fingerprint) return std::nullopt;
    auto side = open(*known);
    return side.ok() ? std::optional<Side>(std::move(*side)) : std::nullopt;
  };
  if (auto side = cached()) return std::move(*side);
  // All processes of a run come here at once: one of them prepares the text, and the others wait.
  LEEWAY_TRY(make_folder(cache));
  Path turns = folder;
  turns += ".lock";
  const FileTurn turn(turns, [&] { return !progress || progress(0, 0); });
  if (!turn.has_come()) return stopped_error("stopped before the text was prepared");
  if (auto side = cached()) return std::move(*side);
  LEEWAY_ASSIGN(const DataInfo info, prepare(options, tokenizer, folder, progress));
  return open(info);
}

Result<Side> open_train(const DataSpec& spec, const Path& cache, const PrepareProgress& progress) {
  if (spec.train.empty()) {
    return usage_error("data.train is empty; name a folder made by `leeway data prepare`, or text");
  }
  LEEWAY_ASSIGN(const Named named, what_is_named("data.train", spec.train));
  if (named == Named::kFolder) return open_folder(spec.train[0], spec.valid.empty());
  if (named == Named::kTokens) return open_tokens(spec.train[0]);
  LEEWAY_ASSIGN(const auto tokenizer, load_tokenizer(spec.tokenizer));
  const PrepareOptions options{.inputs = spec.train,
                               .valid_share = spec.valid.empty() ? spec.valid_share : 0.0};
  return open_text(options, *tokenizer, cache, progress);
}

// The token file of a data folder that is named for validation.
Path validation_of(const Path& folder) {
  std::error_code code;
  return folder / (fs::exists(folder / kValidName, code) ? kValidName : kTrainName);
}

Status check_can_encode(const std::string& name, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return {};
  return usage_error(
      fmt::format("{} is text, but the training data came without a tokenizer to encode it "
                  "with; name a token file",
                  name));
}

Result<Side> open_valid(const std::vector<std::string>& valid, const Tokenizer* tokenizer,
                        const Path& cache, const PrepareProgress& progress) {
  LEEWAY_ASSIGN(const Named named, what_is_named("data.valid", valid));
  if (named == Named::kTokens) return open_tokens(valid[0]);
  if (named == Named::kFolder) return open_tokens(validation_of(valid[0]));
  LEEWAY_TRY(check_can_encode(valid[0], tokenizer));
  const PrepareOptions options{.inputs = valid, .valid_share = 0.0};
  return open_text(options, *tokenizer, cache, progress);
}

Status check_same_tokenizer(const TokenFile& train, const TokenFile& valid) {
  const uint64_t ours = train.info().tokenizer_hash;
  const uint64_t theirs = valid.info().tokenizer_hash;
  if (ours == 0 || theirs == 0 || ours == theirs) return {};  // 0: unknown (a foreign file).
  return Error{
      fmt::format("{} (tokenizer {}) and {} (tokenizer {}) come from different tokenizers; "
                  "prepare both with the same one",
                  train.path().string(), hash_hex(ours), valid.path().string(), hash_hex(theirs))};
}

// If nothing else tells the size of the vocabulary, the largest id in both files does.
uint64_t vocabulary_of(const Tokenizer* tokenizer, const TokenFile& train,
                       const std::optional<TokenFile>& valid) {
  if (tokenizer != nullptr) return static_cast<uint64_t>(tokenizer->vocabulary());
  if (train.info().vocabulary > 0) return train.info().vocabulary;
  if (valid && valid->info().vocabulary > 0) return valid->info().vocabulary;
  return 1 + std::max(train.largest_id(), valid ? valid->largest_id() : 0);
}

// A tail was not asked for, so one that is too short for the model is dropped, not refused.
void settle_tail(Side& train, int64_t context, bool wanted) {
  if (train.from_text && !train.held && wanted) {
    train.notes.push_back(
        "no validation: the text is too short to hold out a part of it; name data.valid");
  }
  if (!train.held_is_tail) return;
  const std::string size = human_bytes(train.held->info().text_bytes);
  if (!check_windows(*train.held, context).ok()) {
    train.held.reset();
    train.notes.push_back(
        fmt::format("no validation: the end of the text was held out, but its {} are less than a "
                    "window of model.context {}; name data.valid, or hold out a larger share",
                    size, context));
  } else if (train.from_text) {
    train.notes.push_back(
        fmt::format("validation data: the last {} of the text, which has too few documents; "
                    "data.valid names other data, data.valid_share=0 turns validation off",
                    size));
  }
}

// What is not text has no bytes for us if a folder or a pattern brought it, like in prepare().
Result<uint64_t> not_taken(const InputFile& file, const NotText& foreign) {
  if (file.found) return uint64_t{0};
  return Error{foreign.sentence(file.name())};
}

// The bytes of a text, unpacked; of a long one, at least `enough`. Reads no more than it must.
Result<uint64_t> text_bytes_of(const InputFile& file, uint64_t enough) {
  if (const auto table = table_of(file.path)) return not_taken(file, *table);
  LEEWAY_ASSIGN(const auto source, TextSource::open(file));
  std::vector<char> block(64 * 1024);
  for (uint64_t bytes = 0;;) {
    LEEWAY_ASSIGN(const size_t got, source->read(block));
    const auto foreign = bytes == 0 ? not_text({block.data(), got}) : std::nullopt;
    if (foreign) return not_taken(file, *foreign);
    bytes += got;
    if (got == 0 || bytes > enough) return std::max(bytes, file.bytes);
  }
}

// Adds what the inputs have, all of which must open.
Status glance_at_text(const std::vector<std::string>& inputs, DataGlance& glance) {
  constexpr size_t kFilesMax = 1000;  // opening more takes too long for a look
  LEEWAY_TRY(check_readable_twice(inputs));
  LEEWAY_ASSIGN(const auto files, find_inputs(inputs, {}));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!files[i].size_known) glance.small = false;  // a pipe: a look would use it up
    if (i >= kFilesMax) glance.small = false;
    if (i >= kFilesMax || !files[i].size_known) continue;
    const uint64_t enough = glance.small ? kGlanceBytes : 0;
    LEEWAY_ASSIGN(const uint64_t bytes, text_bytes_of(files[i], enough));
    glance.bytes += bytes;
    glance.small = glance.small && glance.bytes <= kGlanceBytes;
  }
  return {};
}

uint64_t bytes_of(const std::optional<TokenFile>& file) {
  return file ? file->info().count * file->info().token_bytes : 0;
}

Result<Side> glance_at_valid(const std::vector<std::string>& valid, const Tokenizer* tokenizer,
                             DataGlance& glance) {
  LEEWAY_ASSIGN(const Named named, what_is_named("data.valid", valid));
  if (named == Named::kTokens) return open_tokens(valid[0], TokenFile::open);
  if (named == Named::kFolder) return open_tokens(validation_of(valid[0]), TokenFile::open);
  LEEWAY_TRY(check_can_encode(valid[0], tokenizer));
  LEEWAY_TRY(glance_at_text(valid, glance));
  return Side();
}

}  // namespace

Result<Dataset> open_dataset(const DataSpec& spec, const Path& cache,
                             const PrepareProgress& progress) {
  LEEWAY_ASSIGN(Side train, open_train(spec, cache, progress));
  // "bytes" is the default, so it may not have been meant; no known .bin format contains bytes.
  if (train.file->info().tokenizer_hash == 0 && spec.tokenizer != "bytes") {
    LEEWAY_ASSIGN(train.tokenizer, load_tokenizer(spec.tokenizer));
  }
  settle_tail(train, spec.context, spec.valid.empty() && spec.valid_share > 0);
  std::optional<TokenFile> valid = std::move(train.held);
  if (!spec.valid.empty()) {
    LEEWAY_ASSIGN(Side side, open_valid(spec.valid, train.tokenizer.get(), cache, progress));
    LEEWAY_TRY(check_same_tokenizer(*train.file, *side.file));
    train.notes.insert(train.notes.end(), side.notes.begin(), side.notes.end());
    valid = std::move(side.file);
  }
  const uint64_t vocabulary = vocabulary_of(train.tokenizer.get(), *train.file, valid);
  LEEWAY_TRY(train.file->check_ids(vocabulary));
  if (valid) LEEWAY_TRY(valid->check_ids(vocabulary));
  return Dataset{.train = *std::move(train.file),
                 .valid = std::move(valid),
                 .tokenizer = std::move(train.tokenizer),
                 .vocabulary = static_cast<int64_t>(vocabulary),
                 .notes = std::move(train.notes)};
}

Result<DataGlance> glance_at_dataset(const DataSpec& spec) {
  LEEWAY_ASSIGN(const Named named, what_is_named("data.train", spec.train));
  DataGlance glance;
  Side train;
  if (named == Named::kFolder) {
    LEEWAY_ASSIGN(train, open_folder(spec.train[0], spec.valid.empty(), TokenFile::open));
  } else if (named == Named::kTokens) {
    LEEWAY_ASSIGN(train, open_tokens(spec.train[0], TokenFile::open));
  } else {
    LEEWAY_ASSIGN(train.tokenizer, load_tokenizer(spec.tokenizer));
    LEEWAY_TRY(glance_at_text(spec.train, glance));
  }
  const bool foreign = train.file && train.file->info().tokenizer_hash == 0;
  if (foreign && spec.tokenizer != "bytes") {
    LEEWAY_ASSIGN(train.tokenizer, load_tokenizer(spec.tokenizer));
  }
  settle_tail(train, spec.context, spec.valid.empty() && spec.valid_share > 0);
  glance.valid = std::move(train.held);
  if (!spec.valid.empty()) {
    LEEWAY_ASSIGN(Side side, glance_at_valid(spec.valid, train.tokenizer.get(), glance));
    if (train.file && side.file) LEEWAY_TRY(check_same_tokenizer(*train.file, *side.file));
    glance.valid = std::move(side.file);
  }
  glance.vocabulary =
      train.file
          ? static_cast<int64_t>(vocabulary_of(train.tokenizer.get(), *train.file, glance.valid))
          : train.tokenizer->vocabulary();
  glance.train = std::move(train.file);
  glance.bytes += bytes_of(glance.train) + bytes_of(glance.valid);
  glance.small = glance.small && glance.bytes <= kGlanceBytes;
  return glance;
}

Result<HeldOut> open_held_out(const std::string& name, const Tokenizer* tokenizer,
                              const Path& cache, const PrepareProgress& progress) {
  LEEWAY_ASSIGN(Side side, open_valid({name}, tokenizer, cache, progress));
  return HeldOut{.tokens = *std::move(side.file), .notes = std::move(side.notes)};
}

Status check_windows(const TokenFile& file, int64_t context) {
  const uint64_t count = file.info().count;
  const auto needed = static_cast<uint64_t>(context) + 1;
  if (count >= needed) return {};
  const std::string name = file.path().string();
  if (count < 2) {
    return Error{fmt::format("{} has {}, too little to learn from; prepare it from more text", name,
                             count == 0 ? "no tokens" : "one token")};
  }
  return Error{
      fmt::format("{} has {} tokens, fewer than the {} of one window (model.context {} plus "
                  "one); add text, or set model.context to {} or less",
                  name, count, needed, context, count - 1)};
}

}  // namespace leeway
