#include "tokenizers/byte_pair_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "tokenizers/unicode.h"

namespace leeway {
namespace {

// Far above any vocabulary in use, so that a damaged id cannot allocate gigabytes.
constexpr uint64_t kIdLimit = uint64_t{1} << 24;

bool is_printable(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// GPT-2's alphabet: printable bytes are written as themselves, the others as U+0100 and up.
std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t spare = 256;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] =
        is_printable(byte) ? static_cast<char32_t>(byte) : spare++;
  }
  return alphabet;
}

const std::array<char32_t, 256>& alphabet() {
  static const std::array<char32_t, 256> made = make_alphabet();
  return made;
}

std::array<int, 512> make_inverse() {
  std::array<int, 512> inverse{};
  inverse.fill(-1);
  for (int byte = 0; byte < 256; ++byte) inverse[alphabet()[static_cast<size_t>(byte)]] = byte;
  return inverse;
}

Error id_error(const std::string& where, const std::string& name, std::string_view trouble) {
  return Error{fmt::format("{}: the id of token '{}' {}", where, name, trouble)};
}

Status place(const std::string& name, uint64_t id, const std::string& where, std::string bytes,
             BytePairModel& model) {
  if (id >= kIdLimit) return id_error(where, name, fmt::format("is {}, too large", id));
  if (id >= model.tokens.size()) model.tokens.resize(static_cast<size_t>(id) + 1);
  std::string& slot = model.tokens[static_cast<size_t>(id)];
  if (!slot.empty() && slot != bytes) {
    return id_error(where, name, fmt::format("is {}, which another token has", id));
  }
  slot = std::move(bytes);
  return {};
}

void insert_special(TokenId id, BytePairModel& model) {
  const auto at = std::lower_bound(model.specials.begin(), model.specials.end(), id);
  if (at == model.specials.end() || *at != id) model.specials.insert(at, id);
}

}  // namespace

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static const std::array<int, 512> inverse = make_inverse();
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const DecodedChar character = decode_char(text, position);
    if (character.code >= inverse.size() || inverse[character.code] < 0) return std::nullopt;
    bytes += static_cast<char>(inverse[character.code]);
    position += character.size;
  }
  return bytes;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(alphabet()[static_cast<unsigned char>(byte)], text);
  return text;
}

Status set_tokens(const TokenNames& names, const std::string& where, BytePairModel& model) {
  for (const auto& [name, id] : names) {
    if (name.empty()) return Error{fmt::format("{}: the vocabulary has an empty token", where)};
    std::optional<std::string> bytes = from_byte_alphabet(name);
    const bool decode_only = !bytes;
    LEEWAY_TRY(place(name, id, where, decode_only ? name : std::move(*bytes), model));
    if (decode_only) insert_special(id, model);
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (names.contains(to_byte_alphabet(std::string(1, static_cast<char>(byte))))) continue;
    return Error{fmt::format(
        "{}: the vocabulary lacks byte 0x{:02X}, so some text cannot be encoded; train it with the "
        "whole byte alphabet",
        where, byte)};
  }
  return {};
}

Status add_special(const std::string& name, uint64_t id, const std::string& where,
                   BytePairModel& model) {
  LEEWAY_TRY(place(name, id, where, name, model));
  insert_special(static_cast<TokenId>(id), model);
  return {};
}

Status set_merges(const std::vector<NamedMerge>& merges, const TokenNames& names,
                  const std::string& where, BytePairModel& model) {
  model.merges.reserve(merges.size());
  for (const auto& [left, right] : merges) {
    const auto left_at = names.find(left);
    const auto right_at = names.find(right);
    const auto merged_at = names.find(left + right);
    for (const auto& [at, name] : {std::pair(left_at, left), std::pair(right_at, right),
                                   std::pair(merged_at, left + right)}) {
      if (at != names.end()) continue;
      return Error{
          fmt::format("{}: merge {} ('{} {}') needs token '{}', which the vocabulary lacks", where,
                      model.merges.size() + 1, left, right, name)};
    }
    model.merges.push_back({left_at->second, right_at->second, merged_at->second});
  }
  return {};
}

uint64_t hash_model(const BytePairModel& model) {
  std::string all =
      fmt::format("byte pairs {} {} {} {} {}\n", static_cast<int>(model.split),
                  model.pattern.size(), model.pattern, model.ignore_merges, model.add_prefix_space);
  for (const std::string& token : model.tokens)
    fmt::format_to(std::back_inserter(all), "{} {}\n", token.size(), token);
  for (const TokenId id : model.specials)
    fmt::format_to(std::back_inserter(all), "special {}\n", id);
  for (const Merge& merge : model.merges) {
    fmt::format_to(std::back_inserter(all), "{} {} {}\n", merge.left, merge.right, merge.merged);
  }
  if (model.document_marker)
    fmt::format_to(std::back_inserter(all), "marker {}\n", *model.document_marker);
  return hash_text(all);
}

}  // namespace leeway
