#include "fleet/host_and_guest.h"

#include <atomic>
#include <utility>

#include "run/failure.h"

namespace leeway {

Result<GuestEnd> take_part_safely(const GuestOptions& options) {
  try {
    return take_part(options);
  } catch (...) {
    return failure_of(std::current_exception());
  }
}

GuestOptions goes_with_host(GuestOptions options) {
  const auto heard = std::make_shared<std::atomic<bool>>(false);
  options.wire = [heard, wire = std::move(options.wire)](Post::Handlers handlers) {
    handlers.received = [heard, received = std::move(handlers.received)](ProcessId from,
                                                                         Parcel parcel) {
      if (from == kHost) *heard = true;
      received(from, std::move(parcel));
    };
    return wire(std::move(handlers));
  };
  options.interrupted = [heard, interrupted = std::move(options.interrupted)] {
    return !*heard && interrupted();
  };
  return options;
}

Status HostAndGuest::begin(HostOptions host, GuestOptions guest,
                           std::function<void(const Error&)> failed) {
  LEEWAY_ASSIGN(host_, Host::open(std::move(host)));
  // One that the host has not heard of yet is not told of the end.
  guest.interrupted = [this] { return ended_.load(); };
  guest_ =
      std::thread([this, guest = goes_with_host(std::move(guest)), failed = std::move(failed)] {
        const Result<GuestEnd> end = take_part_safely(guest);
        if (end.ok() || ended_) return;  // at the end it is not told, or not in time
        {
          const std::lock_guard lock(mutex_);
          failure_ = end.error();
        }
        if (failed) failed(end.error());
      });
  return {};
}

Status HostAndGuest::prepare(const SessionStart& start) {
  if (!host_) return Error{"the host has not begun"};  // begin() has said why
  return host_->prepare(start);
}

Status HostAndGuest::run(Recorder& recorder, ShardStore& shards) {
  return host_->run(recorder, shards);
}

std::optional<Error> HostAndGuest::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void HostAndGuest::end() {
  if (!host_) return;
  ended_ = true;
  host_->end("the run is over");
  guest_.join();
  host_.reset();
}

}  // namespace leeway
