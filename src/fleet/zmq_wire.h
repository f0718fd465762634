// A fleet's wire over TCP.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "drivers/zmq/keys.h"
#include "fleet/wire.h"

namespace leeway {

// Where a process that ends is noticed at once, or nobody could take its place: one that is silent
// may only wait for a core.
inline constexpr int64_t kPatientBeats = 20;

struct ZmqWireOptions {
  ProcessId self;
  std::string listen = "tcp://*:0";
  std::optional<zmq::KeyPair> keys = {};  // none: plain text
  // A guest's: where the host is, and its key.
  std::string host_address = {};
  std::string host_key = {};
  // The host's: who may come.
  std::function<bool(const std::string& key)> allows = {};
  int64_t silent_beats = 4;  // heartbeats without a sign of life
  const Clock& clock;
};
WireMaker zmq_wire(ZmqWireOptions options);

}  // namespace leeway
