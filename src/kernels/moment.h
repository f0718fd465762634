// A point in what a device has been given to do.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>

namespace leeway {

using DeviceEvent = std::shared_ptr<c10::Event>;

// After all that the current stream of this tensor's device has been given; null on the CPU.
inline DeviceEvent moment_after(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl backend(tensor.device().type());
  auto event = std::make_shared<c10::Event>(tensor.device().type());
  event->record(backend.getStream(tensor.device()));
  return event;
}

}  // namespace leeway
