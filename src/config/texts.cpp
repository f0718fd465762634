#include "config/texts.h"

#include <algorithm>

namespace leeway {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || !std::ranges::all_of(text, is_digit)) return false;
  int port = 0;
  for (const char c : text) port = 10 * port + (c - '0');
  return port <= 65'535;
}

// *, a name, an IPv4 address, or an IPv6 address in brackets. Whether there is such a host is found
// out when it is used; this keeps out what would be read as something else.
bool is_host(std::string_view text) {
  if (text == "*") return true;
  if (text.starts_with('[')) {
    const auto good = [](char c) {
      return is_digit(c) || is_letter(c) || c == ':' || c == '.' || c == '%';
    };
    if (!text.ends_with(']')) return false;
    const std::string_view inner = text.substr(1, text.size() - 2);
    return inner.find(':') != std::string_view::npos && std::ranges::all_of(inner, good);
  }
  const auto good = [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '.' || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, good);
}

}  // namespace

bool is_device(std::string_view text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return false;
  const std::string_view index = text.substr(kPrefix.size());
  return std::ranges::all_of(index, is_digit) && !index.empty() && index.size() <= 3;
}

bool is_tokenizer(std::string_view text) {
  if (text == "bytes") return true;
  for (const std::string_view kind : {"gpt2:", "sentencepiece:", "hf:"}) {
    if (text.starts_with(kind)) return text.size() > kind.size();
  }
  return false;
}

bool is_listen_address(std::string_view text) {
  constexpr std::string_view kPrefix = "tcp://";
  if (!text.starts_with(kPrefix)) return false;
  const std::string_view place = text.substr(kPrefix.size());
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return false;
  return is_host(place.substr(0, colon)) && is_port(place.substr(colon + 1));
}

}  // namespace leeway
