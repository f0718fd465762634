// Checks and sets up the device that a recipe or a flag asks for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "config/load.h"

namespace leeway {

int gpu_count();                     // that this process sees
std::vector<double> gpu_memories();  // bytes of each of them

// A usage error unless this machine has `device`: "auto", "cpu", "cuda" or "cuda:N".
Status check_device(const std::string& device);
// What "auto" is on this machine; any other device as it is. fp64 and the simulator are the CPU's.
std::string device_here(const std::string& device);
std::string device_here(const RunOptions& run);

// A usage error unless this machine has the device and the cores that the recipe asks for.
Status check_machine(const LoadedRecipe& loaded);

// How strictly a GPU picks kernels that give the same bits every time. kPrefer: where one exists.
// kInsist: also in flash attention's backward, which is not repeatable otherwise; but kernels
// without a repeatable form then fail, fp32 attention among them.
enum class Repeatable { kPrefer, kInsist };

// Sets the number of threads (0: all cores this process may use) and the choice of kernels.
void set_up_compute(int64_t threads, Repeatable repeatable = Repeatable::kPrefer);
// As the recipe's workers need it: what they free stays with the process, too.
void set_up_compute(const Recipe& recipe);

}  // namespace leeway
