// What travels between two processes: a header, and at most 256 KiB of a parcel. Every frame tells
// which ones have arrived at its sender, so nothing else has to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "drivers/loop/post.h"

namespace leeway::zmq {

inline constexpr size_t kFragmentBytes = size_t{256} << 10;
// No parcel is larger: a state of a stage is sent in parts.
inline constexpr uint64_t kParcelBytesMax = uint64_t{1} << 34;

enum class FrameKind : uint8_t {
  kHello,    // the connection is new: this has arrived so far, send the rest
  kWelcome,  // the answer to it
  kUnknown,  // the answer to one that is not known here, or not any more
  kBeat,     // its sender lives
  kData,     // a fragment of a parcel
};
inline constexpr int kFrameKinds = 5;

// By traffic class.
using Positions = std::array<uint64_t, kTrafficClasses>;

struct FrameHeader {
  uint32_t magic = 0;
  FrameKind kind = FrameKind::kBeat;
  uint8_t traffic = 0;
  uint8_t parcel_kind = 0;
  uint8_t gap = 0;               // 1: frames are missing, send them again from `received` on
  ProcessId from = {};           // its sender
  uint64_t generation = 0;       // of the sender's end of the link
  uint64_t peer_generation = 0;  // of the other end, as far as the sender knows; 0: not yet
  Positions received = {};       // frames of each class that have arrived at the sender
  int64_t sent_at = 0;           // by the sender's clock
  int64_t echo = 0;              // by the receiver's: when what arrived last was sent, and the time
                                 // since then; 0: nothing has arrived
  // Only kData:
  int64_t session = 0;
  uint64_t sequence = 0;  // in its class
  uint64_t offset = 0;    // of the fragment in its parcel
  uint64_t parcel_bytes = 0;
  uint64_t length = 0;
  uint64_t hash = 0;  // of all before it, and of the fragment
};
static_assert(std::is_trivially_copyable_v<FrameHeader>);
static_assert(std::has_unique_object_representations_v<FrameHeader>, "padding would be hashed");

// Bytes of a frame on the connection: its parts, and what ZeroMQ puts around each.
int64_t bytes_on_line(size_t fragment_bytes, bool encrypted);

// Fills in magic and hash.
void seal(FrameHeader& header, std::span<const std::byte> fragment);

// Every field is checked: a frame from the network is untrusted input.
Result<FrameHeader> open_frame(std::span<const std::byte> header,
                               std::span<const std::byte> fragment);

}  // namespace leeway::zmq
