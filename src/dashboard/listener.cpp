#include "dashboard/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <netinet/in.h>

namespace leeway {
namespace {

constexpr int kWaitingMax = 32;  // connections that nobody has accepted yet

Error bind_error(int number, const std::string& host, int port, const std::string& option) {
  if (number == EADDRINUSE) {
    return usage_error(
        fmt::format("{} {}: the port is taken; choose another, or 0 for a free one", option, port));
  }
  if (number == EACCES) {
    return usage_error(fmt::format(
        "{} {}: this port is for the system alone; choose one from 1024 on, or 0 for a free one",
        option, port));
  }
  if (number == EADDRNOTAVAIL) {
    return usage_error(
        fmt::format("{} is no address of this machine; choose one that it has", host));
  }
  return Error{fmt::format("cannot wait for connections on {}, port {}: {}", host, port,
                           std::strerror(number))};
}

int port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Result<Listener> listen_on(const std::string& host, int port, const std::string& option) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (failed != 0) {
    return usage_error(
        fmt::format("there is no address {} ({}); name one of this machine's, such as 0.0.0.0 for "
                    "all of them",
                    host, ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(list, ::freeaddrinfo);
  int number = 0;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    const int made = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (made < 0) {
      number = errno;
      continue;
    }
    const int yes = 1;  // a port whose last user has just ended is free
    ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (::bind(made, at->ai_addr, at->ai_addrlen) == 0 && ::listen(made, kWaitingMax) == 0) {
      return Listener{made, port_of(made)};
    }
    number = errno;
    ::close(made);
  }
  return bind_error(number, host, port, option);
}

}  // namespace leeway
