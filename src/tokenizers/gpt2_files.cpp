#include "tokenizers/gpt2_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/hf_file.h"

namespace leeway {
namespace {

constexpr std::string_view kDocumentMarker = "<|endoftext|>";

// The same file is published under two names.
Result<Path> first_present(const Path& folder, std::string_view name, std::string_view other) {
  for (const std::string_view candidate : {name, other}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / candidate, ignored)) return folder / candidate;
  }
  return Error{fmt::format("{} has neither {} nor {}: a GPT-2 tokenizer needs one of them",
                           folder.string(), name, other)};
}

// One merge per line, "left right", best first; the first line may be a version.
Result<std::vector<NamedMerge>> read_merges(const Path& path) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  std::vector<NamedMerge> merges;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    const bool two_words = space != std::string_view::npos && space > 0 &&
                           space + 1 < line.size() && line.find(' ', space + 1) == line.npos;
    if (!two_words) {
      return Error{
          fmt::format("{}, line {}: '{}' is not a merge; two tokens and one space expected",
                      path.string(), line_number, line)};
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

}  // namespace

Result<BytePairModel> read_gpt2_folder(const Path& folder) {
  LEEWAY_ASSIGN(const Path ids_path, first_present(folder, "encoder.json", "vocab.json"));
  LEEWAY_ASSIGN(const Path merges_path, first_present(folder, "vocab.bpe", "merges.txt"));
  LEEWAY_ASSIGN(const std::string text, read_text(ids_path));
  LEEWAY_ASSIGN(const std::vector<NamedMerge> merges, read_merges(merges_path));
  const std::string where = ids_path.string();
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{where + " is not JSON: download it again"};
  LEEWAY_ASSIGN(const TokenNames names, read_token_names(json, where));

  BytePairModel model;
  model.kind = "gpt2";
  LEEWAY_TRY(set_tokens(names, where, model));
  LEEWAY_TRY(set_merges(merges, names, merges_path.string(), model));
  if (const auto marker = names.find(kDocumentMarker); marker != names.end()) {
    model.document_marker = marker->second;
    LEEWAY_TRY(add_special(marker->first, marker->second, where, model));
  }
  return model;
}

}  // namespace leeway
