// One end of a link between two processes, as a passive state machine: it cuts parcels into frames,
// knows which of them the other end has, and puts what arrives together again. It owns no socket
// and reads no clock. A connection may break and come back: then each end says what has arrived,
// and the other one goes on from there.
//
// At most max(512 KiB, 1.5 x rate x round trip) are under way without having been acknowledged, so
// that a message that matters never waits behind megabytes in buffers that nobody controls. A round
// trip counts as half a millisecond at least: on a shorter one, what takes time is not the line but
// the threads at its ends, and with two frames under way they would wait for each other. Control
// comes first and waits for nothing, then the pipeline; averaging gets what is left, but at least a
// tenth.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "drivers/zmq/frame.h"

namespace leeway::zmq {

struct LinkOptions {
  ProcessId self = {};
  uint64_t generation = 1;     // of this end
  Nanos beat = {500'000'000};  // at least one frame in this time
  size_t fragment_bytes = kFragmentBytes;
  int64_t window_bytes_min = int64_t{512} << 10;
  bool encrypted = false;  // for the ledger
  // Of parcels that have begun to arrive, all classes together, by the sizes that they will have.
  uint64_t unassembled_bytes_max = kParcelBytesMax;
};

// A frame that can be sent: its fragment is part of a buffer that nobody writes any more.
struct OutgoingFrame {
  FrameHeader header;
  std::shared_ptr<const std::vector<std::byte>> buffer = {};  // null: no fragment
  size_t offset = 0;
  int64_t bytes = 0;  // on the line

  std::span<const std::byte> fragment() const {
    return buffer == nullptr ? std::span<const std::byte>()
                             : std::span(*buffer).subspan(offset, header.length);
  }
};

struct LinkCounts {
  int64_t parcels_sent = 0;      // begun to leave
  int64_t parcels_replaced = 0;  // by a newer one of their slot
  int64_t parcels_received = 0;
  int64_t frames_repeated = 0;  // sent again after the connection broke
  int64_t bytes_sent = 0;       // with all headers but those of TCP
  int64_t bytes_received = 0;
};

class Link {
 public:
  explicit Link(const LinkOptions& options) : options_(options) {}

  void put(Parcel parcel);

  // The next frame that may leave now: a fragment if there is one and the window has room for it,
  // else an acknowledgement or a sign of life if one is due.
  std::optional<OutgoingFrame> next(Nanos now);
  OutgoingFrame greeting(FrameKind kind, Nanos now);
  void set_beat(Nanos beat) { options_.beat = beat; }
  void set_unassembled_max(uint64_t bytes) { options_.unassembled_bytes_max = bytes; }
  // When next() has an acknowledgement or a sign of life at the latest.
  Nanos speaks_by() const;

  // A frame of the other end. An error: it cannot be from one that keeps to the protocol.
  Result<std::optional<Parcel>> take(const FrameHeader& header, std::span<const std::byte> fragment,
                                     Nanos now);
  // Whether this frame is from the other end of this very link, and not of an earlier one or after
  // a restart.
  bool is_mine(const FrameHeader& header) const;
  // Whether a later frame has arrived before it: it was left over from a connection that broke.
  bool is_late(const FrameHeader& header) const { return header.sent_at < newest_sent_at_; }

  // Everything that was put has arrived.
  bool drained() const;
  // Something has arrived, and the other end has yet to hear of it.
  bool owes() const { return owed_ > 0; }
  // When it last heard of it; none: never.
  const std::optional<Nanos>& answered_at() const { return answered_at_; }
  int64_t unacknowledged_bytes() const { return unacknowledged_; }
  int64_t window_bytes() const;
  Nanos round_trip() const { return round_trip_; }
  double bytes_per_second() const;
  Nanos heard_at() const { return heard_at_; }
  const LinkCounts& counts() const { return counts_; }

 private:
  struct Begun {
    Parcel parcel;  // without its bytes
    std::shared_ptr<const std::vector<std::byte>> bytes;
    uint64_t first = 0;  // sequence of its first frame
    uint64_t frames = 0;
    uint64_t end() const { return first + frames; }
  };
  struct Outgoing {
    std::deque<Parcel> waiting;
    std::deque<Begun> begun;    // not acknowledged as a whole
    uint64_t next = 0;          // sequence that leaves next
    uint64_t acknowledged = 0;  // the other end has all before it
    uint64_t reached = 0;       // the largest `next` so far
    uint64_t end() const { return begun.empty() ? next : begun.back().end(); }
  };
  struct Incoming {
    uint64_t next = 0;          // sequence that is expected
    Parcel parcel;              // so far
    uint64_t parcel_bytes = 0;  // of it as a whole; 0: none has begun to arrive
    bool refused = false;       // the next one, for lack of room
  };

  bool has_room_for(const FrameHeader& header) const;
  bool lacks_frames() const;
  uint64_t frames_of(size_t bytes) const;
  size_t length_of(const Begun& begun, uint64_t sequence) const;
  int64_t cost_of(const Begun& begun, uint64_t sequence) const;
  bool has_next(const Outgoing& outgoing) const;
  size_t next_length(const Outgoing& outgoing) const;
  const Begun& begin(Outgoing& outgoing);
  std::optional<size_t> choose();
  OutgoingFrame cut(size_t traffic, Nanos now);
  void stamp(OutgoingFrame& frame, Nanos now);
  void acknowledge(const Positions& received, Nanos now);
  void rewind(const Positions& received);
  void measure(const FrameHeader& header, Nanos now);
  Result<std::optional<Parcel>> take_fragment(const FrameHeader& header,
                                              std::span<const std::byte> fragment, Nanos now);

  LinkOptions options_;
  std::array<Outgoing, kTrafficClasses> outgoing_;
  std::array<Incoming, kTrafficClasses> incoming_;
  uint64_t peer_generation_ = 0;
  int64_t unacknowledged_ = 0;
  int64_t left_before_averaging_ = 0;  // bytes of others while it waited, since its last turn
  int64_t owed_ = 0;                   // what has arrived and is not acknowledged, as the window
  Nanos owed_since_ = {};              // counts it, and since when
  std::optional<Nanos> answered_at_ = {};
  bool gap_ = false;  // frames are missing, and that has yet to be said
  Nanos gap_said_at_ = {-1};
  Nanos rewound_at_ = {-1};
  Nanos sent_at_ = {};
  Nanos heard_at_ = {};
  int64_t newest_sent_at_ = 0;
  int64_t echo_ = 0;  // when what arrived last was sent, greetings aside; 0: nothing has
  Nanos echo_since_ = {};
  // Measured:
  Nanos round_trip_ = {};  // the smallest of late; zero: not known
  Nanos round_trip_since_ = {};
  Nanos interval_begin_ = {};  // moves on while nothing is under way
  Nanos idle_since_ = {};
  int64_t interval_bytes_ = 0;
  std::deque<double> rates_;  // of the last intervals
  LinkCounts counts_;
};

}  // namespace leeway::zmq
