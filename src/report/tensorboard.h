// Curves as an event file that TensorBoard reads, written by hand: it takes a checksum and six
// fields of protocol buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/run_data.h"

namespace leeway {

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

// The whole file. A scalar's step is its update; its time is `begin_seconds`, since 1970, plus the
// run's own.
std::string tensorboard_file(const RunData& run, double begin_seconds);

}  // namespace leeway
