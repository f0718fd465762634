// A socket that waits for connections, and what is in the way of one in a sentence.
#pragma once

#include <string>

#include "base/result.h"

namespace leeway {

struct Listener {
  int socket = -1;
  int port = 0;  // the one that was found, where 0 was asked for
};

// `option` is what the user calls the port: "--dashboard". Whoever is given the socket closes it.
Result<Listener> listen_on(const std::string& host, int port, const std::string& option);

}  // namespace leeway
