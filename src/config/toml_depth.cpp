#include "config/toml_depth.h"

#include <algorithm>

namespace leeway {
namespace {

// The end of the string that begins at `begin`, of any of TOML's four kinds. A broken string ends
// anywhere: the parser stops at it.
size_t string_end(std::string_view toml, size_t begin) {
  const char quote = toml[begin];
  const bool escapes = quote == '"';
  const std::string_view rest = toml.substr(begin);
  const bool triple = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
  for (size_t at = begin + (triple ? 3 : 1); at < toml.size(); ++at) {
    if (escapes && toml[at] == '\\') {
      ++at;
    } else if (!triple && (toml[at] == quote || toml[at] == '\n')) {
      return at + 1;
    } else if (triple && toml[at] == quote && toml.substr(at, 3) == rest.substr(0, 3)) {
      at += 3;
      while (at < toml.size() && toml[at] == quote) ++at;  // up to two belong to the text
      return at;
    }
  }
  return toml.size();
}

TomlPlace place_of(std::string_view toml, size_t at) {
  const std::string_view before = toml.substr(0, at);
  const size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  return {.line = 1 + std::count(before.begin(), before.end(), '\n'),
          .column = static_cast<int64_t>(at - line_begin) + 1};
}

}  // namespace

std::optional<TomlPlace> too_deep(std::string_view toml) {
  int brackets = 0;
  int parts = 1;  // of the key that we are in, or of a number with a point
  for (size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = string_end(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '.') ++parts;
    if (c == '=' || c == ',' || c == '\n' || c == '[' || c == ']' || c == '{' || c == '}')
      parts = 1;
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') --brackets;
    if (parts > kTomlDepthMax || brackets > kTomlDepthMax) return place_of(toml, at);
    ++at;
  }
  return std::nullopt;
}

}  // namespace leeway
