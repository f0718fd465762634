// A process that takes part in a run which another one, the host, has: it asks to join, gets the
// recipe, opens its own copy of the data, and trains in the places that it is given, session after
// session, until the host says that the run is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "fleet/wire.h"

namespace leeway {

struct GuestOptions {
  WireMaker wire;
  ProcessId self;
  std::string host_name;     // for sentences: how the host is reached
  std::string name;          // of this process, for people
  int64_t workers = 1;       // places that it can take
  std::string address = {};  // host by which others reach it; empty: the one that the host sees
  Path folder;               // its log, and what its workers save
  std::string data = {};     // in place of data.train, if not empty
  std::string valid = {};    // likewise data.valid
  // Of its workers, one after the other; the last one for all that come after it. Empty:
  // run.device.
  std::vector<std::string> devices = {};
  Path text_cache = {};
  Nanos reach_within = {60'000'000'000};  // the host, at first
  const Clock& clock;
  std::function<void(const std::string& sentence)> said = {};
  std::function<bool()> interrupted = {};
};

enum class GuestEnd {
  kOver,       // the run is over
  kStopped,    // likewise, before its end: it may go on later
  kForgotten,  // the host has given its places away: it may join again, as another process
};
Result<GuestEnd> take_part(const GuestOptions& options);

}  // namespace leeway
