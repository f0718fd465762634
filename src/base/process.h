// What the operating system knows about this process.
#pragma once

#include <cstdint>

namespace leeway {

int64_t peak_rss_bytes();
int64_t core_count();
// Memory that this process may use: the machine's, or less if its container has a limit.
int64_t physical_memory_bytes();

// From now on, freed memory stays with the process. Training frees and allocates the same large
// blocks thousands of times; returning them to the system would mean mapping and clearing every
// page again each time.
void keep_freed_memory();

// Returns all free memory to the system, including holes between used blocks. Call it before work
// whose peak memory matters, if a lot was freed just before.
void release_freed_memory();

}  // namespace leeway
