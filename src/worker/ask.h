// What the user of a run may ask of it while it trains.
#pragma once

#include <cstdint>

namespace leeway {

// kStop: save, and end cleanly. kSave: save, and go on. kAbandon: end without saving.
enum class Ask : uint8_t { kStop, kSave, kAbandon };

}  // namespace leeway
