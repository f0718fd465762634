#include "fleet/allow_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "drivers/zmq/keys.h"

namespace leeway {
namespace {

constexpr std::string_view kForm = "write NAME PUBLIC_KEY";

Error mistake(std::string_view source_name, int64_t line, std::string_view what) {
  return usage_error(fmt::format("{}:{}: {}", source_name, line, what));
}

Error too_large(std::string_view source_name) {
  return usage_error(
      fmt::format("{}: more than {} lines or {} bytes is no list of machines; name "
                  "the file that has one machine on each line",
                  source_name, AllowList::kLinesMax, AllowList::kBytesMax));
}

// Up to a word that begins with #, which no key does.
std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.empty() || line.starts_with('#')) return words;
    const size_t end = std::min(line.find_first_of(kBlank), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Names appear in messages and in names of files.
bool is_name(std::string_view text) {
  constexpr size_t kLongest = 64;
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return text.size() <= kLongest && !text.starts_with('.') && std::ranges::all_of(text, good);
}

Result<AllowedMachine> machine_of(const std::vector<std::string_view>& words, int64_t line,
                                  std::string_view source_name) {
  if (words.size() < 2) return mistake(source_name, line, fmt::format("not a machine; {}", kForm));
  if (!is_name(words[0]))
    return mistake(source_name, line,
                   "the name of a machine is up to 64 letters, digits, '-', '_' and '.', without a "
                   "'.' in front; choose such a name");
  if (!zmq::is_key(words[1]))
    return mistake(source_name, line,
                   "the second word is not a public key; copy the 40 characters that `leeway keys "
                   "show` prints");
  if (words.size() > 2)
    return mistake(
        source_name, line,
        fmt::format("there are no roles, so {} has no meaning: every machine of the list "
                    "may train; {}, and a remark after #",
                    words[2], kForm));
  return AllowedMachine{.name = std::string(words[0]), .key = std::string(words[1]), .line = line};
}

}  // namespace

Result<AllowList> AllowList::read(const Path& file) {
  std::error_code code;
  const auto size = std::filesystem::file_size(file, code);  // fails for a pipe, which is fine
  if (!code && size > kBytesMax) return too_large(file.string());
  const Result<std::string> text = read_text(file);
  // A usage error, because the user named the file.
  if (!text.ok()) return usage_error(text.error().message);
  return parse(*text, file.string());
}

Result<AllowList> AllowList::parse(std::string_view text, std::string_view source_name) {
  if (text.size() > kBytesMax) return too_large(source_name);
  AllowList list;
  for (int64_t number = 1; !text.empty(); ++number) {
    if (number > kLinesMax) return too_large(source_name);
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    LEEWAY_ASSIGN(AllowedMachine machine, machine_of(words, number, source_name));
    LEEWAY_TRY(list.add(std::move(machine), source_name));
  }
  return list;
}

Status AllowList::add(AllowedMachine machine, std::string_view source_name) {
  const size_t index = machines_.size();
  if (const auto [at, fresh] = by_name_.emplace(machine.name, index); !fresh)
    return mistake(source_name, machine.line,
                   fmt::format("line {} has the name {} too; give each machine its own",
                               machines_[at->second].line, machine.name));
  if (const auto [at, fresh] = by_key_.emplace(machine.key, index); !fresh)
    return mistake(source_name, machine.line,
                   fmt::format("line {} has the same key; make one for each machine with `leeway "
                               "keys new`",
                               machines_[at->second].line));
  machines_.push_back(std::move(machine));
  return {};
}

const AllowedMachine* AllowList::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &machines_[found->second];
}

}  // namespace leeway
