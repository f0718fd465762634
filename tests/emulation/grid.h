// Runs a kernel on the CPU: blocks one after the other, the threads of a block as fibers that are
// left where they wait for each other. Blocks, warps and lanes take turns in an order that changes
// all the time, and a warp runs as far as it can: what lacks a barrier gives other numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

#include "include/vector_types.h"

// What CUDA calls them; those of the fiber that runs.
inline dim3 threadIdx;
inline dim3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

namespace leeway::emulation {

inline constexpr unsigned kLanes = 32;

using Place = std::source_location;
using Words = std::array<uint64_t, kLanes>;  // a word of each lane

struct Launch {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;
};
void run_grid(const Launch& launch, const std::function<void()>& kernel);

// What a kernel calls. All threads of the block that have not ended come to the same place; then
// each hears how many of them counted.
int wait_for_block(bool counts, const Place& place);
// All lanes of the mask come to the same place, with the same mask; then each hears what they said.
const Words& wait_for_lanes(unsigned mask, uint64_t said, const Place& place);
unsigned lane();
void* dynamic_shared();

// Ends the program: a GPU might go on, with any numbers.
[[noreturn]] void fail(const std::string& sentence);

}  // namespace leeway::emulation
