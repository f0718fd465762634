#include "drivers/zmq/frame.h"

#include <cstring>

#include "base/hash.h"

namespace leeway::zmq {
namespace {

constexpr uint32_t kMagic = 0x4c774631;  // "1FwL" in memory: frames, version 1

// ZMTP 3: flags and a size of one or of eight bytes around each part. CURVE makes a command of it:
// its name, a nonce, an authenticator and the flags.
constexpr size_t kCurveBytes = 8 + 8 + 16 + 1;
size_t part_on_line(size_t bytes, bool encrypted) {
  if (encrypted) bytes += kCurveBytes;
  return bytes + (bytes > 255 ? 9 : 2);
}

uint64_t hash_of(FrameHeader header, std::span<const std::byte> fragment) {
  header.hash = 0;
  return hash_bytes(fragment, hash_bytes(std::as_bytes(std::span(&header, 1))));
}

Status check_data(const FrameHeader& header, size_t length) {
  if (header.session < 0) return Error{"a frame has a negative session"};
  if (header.parcel_bytes > kParcelBytesMax)
    return Error{"a frame is of a parcel that is too large"};
  if (header.length != length) return Error{"a frame is not as long as it says"};
  if (header.offset > header.parcel_bytes || length > header.parcel_bytes - header.offset) {
    return Error{"a frame lies outside its parcel"};
  }
  const bool empty = length == 0 && header.parcel_bytes > 0;
  return empty ? Status(Error{"a frame without content"}) : Status();
}

}  // namespace

int64_t bytes_on_line(size_t fragment_bytes, bool encrypted) {
  size_t bytes = part_on_line(sizeof(FrameHeader), encrypted);
  if (fragment_bytes > 0) bytes += part_on_line(fragment_bytes, encrypted);
  return static_cast<int64_t>(bytes);
}

void seal(FrameHeader& header, std::span<const std::byte> fragment) {
  header.magic = kMagic;
  header.hash = hash_of(header, fragment);
}

Result<FrameHeader> open_frame(std::span<const std::byte> bytes,
                               std::span<const std::byte> fragment) {
  FrameHeader header;
  if (bytes.size() != sizeof header) return Error{"a frame has a header of another size"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return Error{"a frame of another version of the protocol"};
  if (header.hash != hash_of(header, fragment)) return Error{"a frame is damaged"};
  if (static_cast<int>(header.kind) >= kFrameKinds) return Error{"a frame has an unknown kind"};
  if (header.traffic >= kTrafficClasses) return Error{"a frame has an unknown class"};
  if (header.parcel_kind >= kParcelKinds) return Error{"a frame has an unknown kind of parcel"};
  if (header.gap > 1) return Error{"a frame has an unknown mark"};
  if (header.from.value < 0) return Error{"a frame has a negative sender"};
  if (header.generation == 0) return Error{"a frame has no generation"};
  if (header.sent_at < 0 || header.echo < 0) return Error{"a frame has a negative time"};
  if (fragment.size() > kFragmentBytes) return Error{"a frame is too large"};
  if (header.kind == FrameKind::kData) {
    LEEWAY_TRY(check_data(header, fragment.size()));
  } else if (!fragment.empty()) {
    return Error{"a frame has content that its kind does not have"};
  }
  return header;
}

}  // namespace leeway::zmq
