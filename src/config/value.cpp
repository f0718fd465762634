#include "config/value.h"

#include <fmt/format.h>

namespace leeway {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: not UTF-8 here
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc0 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t value = first & (0x7fU >> bytes);
  for (size_t index = 1; index < bytes; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return {};
    value = (value << 6) | (byte(index) & 0x3fU);
  }
  // An overlong form, half of a UTF-16 pair, or past the end of Unicode.
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < kSmallest[bytes] || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

std::string number_text(const double& value) {
  std::string text = fmt::format("{}", value);  // the shortest text that reads back exactly
  const bool whole = text.find_first_of(".en") == std::string::npos;  // 'n': inf and nan
  return whole ? text + ".0" : text;  // without the point TOML would read an integer
}

template <class Item>
std::string list_text(const std::vector<Item>& list, std::string (*text_of)(const Item&)) {
  std::string text = "[";
  for (const Item& item : list) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

}  // namespace

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const CodePoint code = decode(text.substr(at));
    const size_t bytes = code.bytes == 0 ? 1 : code.bytes;
    if (code.bytes == 1 && (code.value == '"' || code.value == '\\')) {
      out += '\\';
      out += text[at];
    } else if (code.bytes != 0 && is_control(code.value)) {
      out += fmt::format("\\u{:04X}", code.value);
    } else {
      out += text.substr(at, bytes);
    }
    at += bytes;
  }
  return out + '"';
}

std::string toml_text(const Value& value) {
  return std::visit(
      Overloaded{
          [](bool flag) { return std::string(flag ? "true" : "false"); },
          [](int64_t number) { return fmt::format("{}", number); },
          [](double number) { return number_text(number); },
          [](const std::string& text) { return toml_quoted(text); },
          [](const std::vector<std::string>& list) {
            return list_text<std::string>(
                list, [](const std::string& item) { return toml_quoted(item); });
          },
          [](const std::vector<double>& list) { return list_text(list, number_text); },
          [](const Foreign& foreign) { return foreign.description; },
      },
      value);
}

std::string shown(std::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= bytes_max) return out + "...";
    const CodePoint code = decode(text.substr(at));
    const bool readable = code.bytes != 0 && !is_control(code.value);
    out += readable ? text.substr(at, code.bytes) : std::string_view("?");
    at += code.bytes == 0 ? 1 : code.bytes;
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint code = decode(text);
    if (code.bytes == 0) return false;
    text.remove_prefix(code.bytes);
  }
  return true;
}

}  // namespace leeway
