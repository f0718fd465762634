#include "drivers/zmq/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <array>
#include <memory>
#include <vector>

namespace leeway::zmq {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr std::string_view kMapped = "::ffff:";

// Every address once, in the system's order.
Result<std::vector<std::string>> addresses_of(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return Error{gai_strerror(code)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<std::string> result;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text = {};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      result.emplace_back(text.data());
    }
  }
  if (result.empty()) return Error{"it has no address"};
  return result;
}

}  // namespace

std::string host_of(std::string_view address) {
  if (!address.starts_with(kScheme)) return "";
  address.remove_prefix(kScheme.size());
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return "";
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

bool is_ipv4(const std::string& host) {
  in_addr parsed = {};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_numeric(const std::string& host) {
  in6_addr parsed = {};
  return is_ipv4(host) || inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

std::string readable_host(const std::string& host) {
  if (!host.starts_with(kMapped)) return host;
  const std::string rest = host.substr(kMapped.size());
  return is_ipv4(rest) ? rest : host;
}

std::string readable_address(const std::string& address) {
  const std::string host = host_of(address);
  if (host != "::" && host != "0.0.0.0") return address;
  return fmt::format("{}*{}", kScheme, address.substr(address.rfind(':')));
}

Result<std::string> resolved(const std::string& address, size_t attempt) {
  const std::string host = host_of(address);
  if (host.empty()) {
    return Error{fmt::format("cannot dial {}: an address is tcp://HOST:PORT", address)};
  }
  const Result<std::vector<std::string>> found = addresses_of(host);
  if (!found.ok()) {
    return Error{fmt::format("cannot dial {}: the host {} is not known ({}); is its name right?",
                             address, host, found.error().message)};
  }
  const std::string& numbers = (*found)[attempt % found->size()];
  const bool ipv6 = numbers.find(':') != std::string::npos;
  return fmt::format("tcp://{}{}{}{}", ipv6 ? "[" : "", numbers, ipv6 ? "]" : "",
                     address.substr(address.rfind(':')));
}

}  // namespace leeway::zmq
