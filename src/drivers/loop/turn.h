// One turn of a state machine, for every driver that runs in real time: what has arrived is
// delivered, one thing is done, and what it sends is sent.
#pragma once

#include <optional>
#include <utility>

#include "base/clock.h"
#include "drivers/loop/device_stream.h"
#include "worker/coordinator.h"
#include "worker/worker.h"

namespace leeway {

// What was done; none: there was nothing to do.
inline std::optional<WorkKind> take_turn(Worker& worker, const Clock& clock, Outbox& outbox,
                                         Journal& journal, DeviceStream* device = nullptr) {
  const std::optional<Work> next = worker.next();
  if (!next) return std::nullopt;
  const Nanos begin = clock.now();
  const DeviceEvent device_begin = device != nullptr ? device->begin() : nullptr;
  Outcome outcome = worker.run(*next);
  outcome.times = {.begin = begin, .end = clock.now()};
  if (device != nullptr) outcome.when_done = device->end(device_begin);
  worker.finish(*next, std::move(outcome), outbox, journal);
  return next->kind;
}

// False: there was nothing to do.
inline bool take_turn(Coordinator& coordinator, Outbox& outbox) {
  const std::optional<Coordinator::Errand> next = coordinator.next();
  if (!next) return false;
  coordinator.run(*next);
  coordinator.finish(*next, outbox);
  return true;
}

}  // namespace leeway
