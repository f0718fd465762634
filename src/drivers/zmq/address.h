// Addresses of TCP as people write them: tcp://HOST:PORT, where HOST is a name, 192.0.2.1 or
// [2001:db8::1].
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace leeway::zmq {

// HOST without brackets; empty: the address has no host.
std::string host_of(std::string_view address);
bool is_ipv4(const std::string& host);
// Whether the host is written in numbers: nobody has to be asked for it.
bool is_numeric(const std::string& host);
// An IPv4 address that a socket of IPv6 has written in its own way (::ffff:192.0.2.1), as it is
// otherwise written.
std::string readable_host(const std::string& host);
// An address at which a process listens, for people: `*` for all that its machine has.
std::string readable_address(const std::string& address);

// With numbers in place of a name. It may take as long as a name server does, and the next attempt
// takes the next address that a name has. An error: nobody knows the name, or it is no address.
Result<std::string> resolved(const std::string& address, size_t attempt);

}  // namespace leeway::zmq
