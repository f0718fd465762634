#include "drivers/loop/device_stream.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace leeway {
namespace {

c10::impl::VirtualGuardImpl backend(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

c10::Stream own_stream(const at::Device& device) {
  backend(device).setDevice(device);
  // Workers are made on it. Not the whole device: another worker may be making a graph, which such
  // a wait would break.
  backend(device).getDefaultStream(device).synchronize();
  return backend(device).getStreamFromGlobalPool(device);
}

// With its index: "cuda" alone is the current one.
at::Device numbered(const at::Device& device) {
  return device.has_index() ? device : backend(device).getDevice();
}

}  // namespace

bool is_for_device(const Message& message) {
  return message.payload.defined() && message.kind != MessageKind::kState;
}

void bring_to_host(Message& message) {
  if (!message.ready) return;
  message.ready->synchronize();
  message.ready.reset();
  message.payload = message.payload.cpu();
}

struct DeviceStream::Base {
  const Clock& clock;
  DeviceEvent event;
  Nanos time;
  Nanos last_end = {};  // pieces follow each other: rounding must not turn that around

  Nanos time_of(const DeviceEvent& other) const {
    return time + Nanos{static_cast<int64_t>(event->elapsedTime(*other) * 1e6)};
  }

  std::optional<WorkTimes> times(const DeviceEvent& begin, const DeviceEvent& end, bool wait) {
    if (!end->query()) {
      if (!wait) return std::nullopt;
      end->synchronize();
    }
    WorkTimes times;
    times.begin = std::max(time_of(begin), last_end);
    times.end = last_end = std::max(time_of(end), times.begin);
    // A new base now and then, because differences are exact only over short times.
    event = end;
    time = std::min(times.end, clock.now());
    return times;
  }
};

DeviceStream::DeviceStream(const at::Device& device, const Clock& clock)
    : device_(numbered(device)), stream_(own_stream(device_)) {
  previous_ = backend(device_).exchangeStream(stream_);
  base_ = std::make_shared<Base>(Base{.clock = clock, .event = record(), .time = clock.now()});
}

DeviceStream::~DeviceStream() {
  try {
    stream_.synchronize();
    backend(device_).exchangeStream(*previous_);
  } catch (...) {  // a device that has failed has told so before
  }
}

DeviceEvent DeviceStream::record() const {
  auto event = std::make_shared<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event->record(stream_);
  return event;
}

void DeviceStream::receive(Message& message) const {
  if (!is_for_device(message)) return;
  if (message.ready) message.ready->block(stream_);
  message.ready.reset();
  if (!message.payload.is_cpu()) message.payload.record_stream(stream_);
  message.payload = message.payload.to(device_, /*non_blocking=*/true);
}

WhenDone DeviceStream::end(DeviceEvent begin) {
  const DeviceEvent end = record();
  under_way_.push_back(end);
  return [base = base_, begin = std::move(begin), end](bool wait) {
    return base->times(begin, end, wait);
  };
}

void DeviceStream::limit() {
  while (under_way_.size() > kAhead) {
    under_way_.front()->synchronize();
    under_way_.pop_front();
  }
}

}  // namespace leeway
