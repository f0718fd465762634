// Ternary blocks (kernels/wire_loops.h) as messages carry them: most digits are zeros, and the more
// there are, the fewer bits a byte of five digits needs. Exact, and on the CPU.
//
// Blocks are packed in groups of 32, each on its own:
//
//   level    1 byte: how many of 256 digits are zeros, about; 0: the blocks follow unchanged
//   words    2 bytes: how many words of 16 bits the codes need
//   scales   2 bytes for each block: those of fp32 that are not zero
//   codes    a range coder's words (asymmetric numeral systems, arXiv 1311.2540), in the order in
//            which they are read
//
// The model is that of independent digits with plus as likely as minus, so the level is all that a
// reader needs. Integers throughout: all machines have the same tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace leeway {

// `blocks`: those of `count` numbers. The result is shorter, or the blocks themselves.
std::vector<uint8_t> pack_ternary(std::span<const uint8_t> blocks, int64_t count);

// Writes the blocks of `count` numbers. False: they are not packed blocks, and what was written is
// of no use. Reads and writes nothing beyond the ends, whatever the bytes are.
bool unpack_ternary(std::span<const uint8_t> packed, int64_t count, std::span<uint8_t> blocks);

// How many bytes that takes if this share of the numbers is not zero: the entropy of their digits,
// and what goes with each block and group.
double packed_ternary_bytes(int64_t count, double kept_share);

}  // namespace leeway
