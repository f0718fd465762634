// What a GPU has, and what it must have for the kernels of this folder.
#pragma once

namespace leeway {

// Whether this build has kernels for GPU number `index`: compute capability 8.0 or newer.
bool has_kernels_for(int index);

// Compute capability 9: an H100, H200 or GH200.
bool is_hopper(int index);

// All memory of that GPU in bytes; 0 if it cannot be asked.
double gpu_memory_bytes(int index);

}  // namespace leeway
