// The way between the processes of a run. It carries parcels: bytes whose meaning it does not know.
// Parcels of one class, on one link, arrive once and in order for as long as both ends live;
// classes may overtake each other. What is for a process that is gone is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "worker/message.h"

namespace leeway {

// One process for as long as it lives: one that is started again has another id.
using ProcessId = Id<struct ProcessTag>;
// The process that the others report to.
inline constexpr ProcessId kHost = {0};

struct Parcel {
  enum class Kind : uint8_t {
    kMesh,   // a message between workers, or to or from the coordinator, in a session
    kFleet,  // about the run as a whole: who takes part, sessions, files (src/fleet)
  };
  Kind kind = Kind::kMesh;
  TrafficClass traffic = TrafficClass::kControl;
  int64_t session = 0;
  // A newer parcel takes the place of one with the same slot that waits and has not begun to leave.
  // 0: it must arrive.
  uint64_t slot = 0;
  std::vector<std::byte> bytes = {};
};
inline constexpr int kParcelKinds = 2;

// When anything came, from anybody.
struct Heard {
  Nanos at = {};     // last
  Nanos since = {};  // when the last gap of two heartbeats ended; zero: there was none
};

class Post {
 public:
  // Called on the post's own thread, one at a time; none may block. After close() none is called.
  struct Handlers {
    std::function<void(ProcessId from, Parcel parcel)> received;
    // Nothing has been heard of it for too long. Its parcels wait; it may come back.
    std::function<void(ProcessId peer)> silent = {};
    // It was silent or could not be reached, and is heard now.
    std::function<void(ProcessId peer)> heard_again = {};
    // It does not know this process any more: it was taken for gone, or another run is there now.
    std::function<void(ProcessId peer)> forgotten = {};
    // It does not let this process in: another key is expected.
    std::function<void(ProcessId peer)> key_refused = {};
    // Somebody is there, and ends every connection during the handshake: it has another key than
    // this process expects of it, or is another program.
    std::function<void(ProcessId peer)> closes_early = {};
    // It cannot be reached at the address that this process has for it.
    std::function<void(ProcessId peer)> unreachable = {};
    // Something that came was not taken: from where, and why.
    std::function<void(const std::string& sentence)> refused = {};
  };

  virtual ~Post() = default;
  // From any thread; does not block.
  virtual void send(ProcessId to, Parcel parcel) = 0;
  // Waits, for a limited time, until what was sent to those that still live has arrived; then
  // nothing is sent or received any more.
  virtual void close() = 0;
};

}  // namespace leeway
