#include "dashboard/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace leeway {
namespace {

constexpr size_t kTokenMin = 16;  // characters
constexpr size_t kTokenMax = 256;

std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return made;
}

// "localhost:8080" -> "localhost", "[::1]:8080" -> "::1". Several colons without brackets are an
// address without a port.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == host.npos ? std::string_view() : host.substr(1, end - 1);
  }
  const size_t colon = host.find(':');
  return colon == host.npos || host.find(':', colon + 1) != host.npos ? host
                                                                      : host.substr(0, colon);
}

bool fit_for_address(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string text = lower(host);
  in_addr four = {};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  return text == "localhost" || text == "::1";
}

bool host_allowed(std::string_view header, std::string_view bound) {
  const std::string name = lower(without_port(header));
  if (name.empty()) return false;
  return is_loopback(name) || name == lower(bound) || bound == "0.0.0.0" || bound == "::";
}

bool same_token(std::string_view given, std::string_view expected) {
  volatile unsigned differs = given.size() == expected.size() ? 0 : 1;  // volatile: every step
  for (size_t i = 0; i < expected.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    differs = differs | static_cast<unsigned char>(other ^ expected[i]);
  }
  return differs == 0;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return {};
  return authorization.substr(kScheme.size());
}

Result<std::string> read_token(const Path& file) {
  LEEWAY_ASSIGN(std::string token, read_text(file));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) {
    token.pop_back();
  }
  const bool fits = std::ranges::all_of(token, fit_for_address);
  if (fits && token.size() >= kTokenMin && token.size() <= kTokenMax) return token;
  return usage_error(
      fmt::format("{} has no valid token: it needs {} to {} letters, digits, - _ . ~ on one line; "
                  "`openssl rand -hex 16` prints one",
                  file.string(), kTokenMin, kTokenMax));
}

}  // namespace leeway
