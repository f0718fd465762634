// What goes ahead of a parcel's bytes between two ranks, and who lives where. All ranks run the
// same program on the same kind of machine; a header is checked all the same, because a size that
// is wrong would end in the wrong memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/result.h"
#include "drivers/loop/post.h"

namespace leeway::mpi {

// Rank 0 has the host besides its guest.
constexpr ProcessId guest_of(int rank) { return {int64_t{rank} + 1}; }
constexpr int64_t rank_of(ProcessId process) { return process == kHost ? 0 : process.value - 1; }

inline constexpr int64_t kParcelBytesMax = int64_t{1} << 40;
// Instead of a parcel's kind: nothing follows in this class.
inline constexpr uint8_t kFarewell = kParcelKinds;

struct ParcelHeader {
  int64_t from = 0;
  int64_t to = 0;
  int64_t session = 0;
  int64_t bytes = 0;
  uint8_t kind = 0;
  uint8_t traffic = 0;
  uint8_t unused[6] = {};
};
static_assert(std::is_trivially_copyable_v<ParcelHeader> && sizeof(ParcelHeader) == 40);

// A parcel between two processes that waits, is under way or has arrived.
struct Addressed {
  ProcessId from;
  ProcessId to;
  Parcel parcel;
};

ParcelHeader header_of(const Addressed& addressed);

// Where a header came from and was read.
struct HeaderPlace {
  int from = 0;
  int to = 0;
  TrafficClass traffic = TrafficClass::kControl;  // whose tag it had
};
// The parcel with room for its bytes.
Result<Addressed> addressed_by(const ParcelHeader& header, const HeaderPlace& place);

}  // namespace leeway::mpi
