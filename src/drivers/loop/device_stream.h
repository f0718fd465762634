// A worker's own stream on its GPU, for the thread that runs the worker. Work is handed to the
// device and finishes there in order; the host runs a few pieces ahead and learns of the end from
// events. On the CPU there is no stream: work is done when it returns.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <deque>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "kernels/moment.h"
#include "worker/message.h"
#include "worker/outcome.h"

namespace leeway {

// Whether a message's payload is for arithmetic; a state travels as bytes, for the host.
bool is_for_device(const Message& message);
// Waits for a payload that another worker's GPU computes, and copies it: for one on the CPU.
void bring_to_host(Message& message);

class DeviceStream {
 public:
  // Makes a new stream the current one of this thread. It begins after everything that the device's
  // default stream has been given so far.
  DeviceStream(const at::Device& device, const Clock& clock);
  // Waits until all is done, and makes the stream before it the current one again: whoever is made
  // next by this thread is made on the default stream.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  // Before the work that uses a message: the stream waits until its payload has been computed, and
  // copies it if it is on another device. The host does not wait.
  void receive(Message& message) const;

  // Around a piece of work.
  DeviceEvent begin() const { return record(); }
  WhenDone end(DeviceEvent begin);

  // Waits while more pieces than this are under way: the device has enough to do, and more would
  // only hold memory.
  static constexpr size_t kAhead = 4;
  void limit();

 private:
  // Event times are differences: to an event whose time is known.
  struct Base;

  DeviceEvent record() const;  // with its time

  at::Device device_;
  c10::Stream stream_;
  std::optional<c10::Stream> previous_;
  std::shared_ptr<Base> base_;
  std::deque<DeviceEvent> under_way_;
};

}  // namespace leeway
