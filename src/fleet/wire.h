// What the processes of a fleet need from the way between them, whatever it is made of.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "config/recipe.h"
#include "drivers/loop/post.h"
#include "fleet/directory.h"

namespace leeway {

// Who somebody is that is not in the directory: the key that it came with, and from which host.
struct Stranger {
  std::string key;
  std::string host;
};

class Wire {
 public:
  virtual ~Wire() = default;
  // From any thread:
  virtual void send(ProcessId to, Parcel parcel) = 0;
  // These and the host may be spoken to from now on, and nobody else.
  virtual void adopt(const Directory& directory) = 0;
  virtual void forget(ProcessId process) = 0;
  virtual std::optional<Stranger> stranger(ProcessId process) const = 0;
  // The recipe's lines: a cap, emulated latency, heartbeats.
  virtual void shape(const NetworkOptions& network) = 0;
  virtual std::string address() const = 0;  // where this process listens; empty: nowhere
  virtual Heard heard() const = 0;
  // Waits, for a limited time, until what was sent has arrived.
  virtual void close() = 0;
};

using WireMaker = std::function<Result<std::unique_ptr<Wire>>(Post::Handlers handlers)>;

inline Parcel parcel_of(const Note& note, TrafficClass traffic = TrafficClass::kControl) {
  return {.kind = Parcel::Kind::kFleet, .traffic = traffic, .bytes = to_bytes(note)};
}

}  // namespace leeway
