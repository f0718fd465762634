#include "terminal/say.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace leeway {
namespace {

// A terminal that has some room may still make a write wait for the rest, so it is opened once
// more, not to wait. Its own descriptor is shared with the shell and stays as it is.
int quick_stderr() {
  if (::isatty(STDERR_FILENO) != 1) return STDERR_FILENO;
  const int again = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return again < 0 ? STDERR_FILENO : again;
}

}  // namespace

void say(std::string_view text) {
  static const int descriptor = quick_stderr();
  while (!text.empty()) {
    pollfd ready = {.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) != 1) return;
    // A pipe that is ready takes this much without waiting.
    const ssize_t wrote = ::write(descriptor, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace leeway
