// Large pages for large buffers, where the kernel gives them to who asks. A round reads and writes
// runs that lie all over the buffers of a stage: with small pages every run is a miss of the
// processor's table of pages, too. (Gather and merge of 5 % in fp32: 0.57 of a copy's speed, 0.47
// without.)
#pragma once

#include <cstdlib>

namespace leeway::cli {

// LibTorch reads it at its first allocation. Who has set it has the last word.
inline void prefer_large_pages() { ::setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0); }

}  // namespace leeway::cli
