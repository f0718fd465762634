// What a GPU must have for the kernels of this folder.
#pragma once

namespace leeway {

// Whether this build has kernels for GPU number `index`: compute capability 8.0 or newer.
bool has_kernels_for(int index);

}  // namespace leeway
