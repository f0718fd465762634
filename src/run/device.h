// Whether the machine has what a recipe or a flag asks for.
#pragma once

#include <string>

#include "base/result.h"

namespace leeway {

// "cpu", "cuda" or "cuda:N" exists here; otherwise one sentence.
Status check_device(const std::string& device);

// How a GPU that has the choice picks its kernels: those that give the same bits every time.
// LibTorch knows two degrees. kPrefer: where there is one. kInsist: also in flash attention's
// backward, which needs to be told; but kernels that have no such form then fail, and the fp32
// attention is one.
enum class Repeatable { kPrefer, kInsist };

// Threads (0: all cores that this process may use) and kernels.
void set_up_compute(int64_t threads, Repeatable repeatable = Repeatable::kPrefer);

}  // namespace leeway
