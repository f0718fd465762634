// Curves as a TensorBoard event file, written by hand: it only takes a checksum and six protocol
// buffer fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/run_data.h"

namespace leeway {

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

// The whole file. A scalar's step is its update; its time is `begin_seconds` (since 1970) plus the
// run's time.
std::string tensorboard_file(const RunData& run, double begin_seconds);

}  // namespace leeway
