// What the operating system knows about this process.
#pragma once

#include <cstdint>

namespace leeway {

int64_t peak_rss_bytes();
int64_t core_count();
// What this process may use: the machine's memory, or less where its container has a limit.
int64_t physical_memory_bytes();

// From here on, freed blocks stay with the process. Training frees and takes the same large blocks
// thousands of times; given back each time, every page of them would be cleared and mapped anew.
void keep_freed_memory();

// Gives back what is free now, holes between used blocks included: before a stretch of work whose
// peak counts, when much was freed by what came before.
void release_freed_memory();

}  // namespace leeway
