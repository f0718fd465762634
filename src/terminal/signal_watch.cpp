#include "terminal/signal_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "terminal/interrupt.h"

namespace leeway {
namespace {

int make_event() {
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  LEEWAY_CHECK(event >= 0, "the system has no event descriptors left");
  return event;
}

}  // namespace

SignalWatch::SignalWatch(std::function<void()> signalled) : end_(make_event()) {
  set_signal_event(make_event());
  thread_ = std::thread([this, call = std::move(signalled)] { watch(call); });
}

SignalWatch::~SignalWatch() {
  const uint64_t one = 1;
  static_cast<void>(!::write(end_, &one, sizeof one));
  thread_.join();
  ::close(set_signal_event(-1));
  ::close(end_);
}

void SignalWatch::watch(const std::function<void()>& signalled) const {
  std::array<pollfd, 2> events = {{{.fd = signal_event(), .events = POLLIN, .revents = 0},
                                   {.fd = end_, .events = POLLIN, .revents = 0}}};
  while ((events[1].revents & POLLIN) == 0) {
    uint64_t count = 0;
    static_cast<void>(!::read(events[0].fd, &count, sizeof count));
    signalled();
    ::poll(events.data(), events.size(), /*timeout=*/-1);
  }
}

}  // namespace leeway
