#include "run/device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/process.h"
#include "kernels/gpu.h"
#include "recipe/thread_check.h"
#include "run/drivers.h"

namespace leeway {

namespace {

#if LEEWAY_CUDA
constexpr bool kHasKernels = true;
#else
constexpr bool kHasKernels = false;
#endif

}  // namespace

int gpu_count() {
  return kHasKernels && at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
}

std::vector<double> gpu_memories() {
  std::vector<double> bytes;
  for (int index = 0; index < gpu_count(); ++index) bytes.push_back(gpu_memory_bytes(index));
  return bytes;
}

Status check_device(const std::string& device) {
  if (device == "auto" || device == "cpu") return {};
  const int count = gpu_count();
  if (count == 0) {
    const char* const why = !kHasKernels ? "this program is built without CUDA (docs/gpu.md)"
                                         : "no GPU is visible (does nvidia-smi list one?)";
    return usage_error(
        fmt::format("{} was requested, but {}; use run.device = \"cpu\"", device, why));
  }
  const at::Device wanted(device);
  if (wanted.has_index() && wanted.index() >= count) {
    return usage_error(
        fmt::format("{} was requested, but the number of visible GPUs is {}; the first is cuda:0",
                    device, count));
  }
  const int first = wanted.has_index() ? wanted.index() : 0;
  const int last = wanted.has_index() ? wanted.index() : count - 1;
  for (int index = first; index <= last; ++index) {
    if (has_kernels_for(index)) continue;
    return usage_error(fmt::format(
        "{} was requested, but GPU {} is too old: its compute capability is below 8.0; hide it "
        "(CUDA_VISIBLE_DEVICES), or use run.device = \"cpu\"",
        device, index));
  }
  return {};
}

std::string device_here(const std::string& device) {
  if (device != "auto") return device;
  return check_device("cuda").ok() ? "cuda" : "cpu";
}

std::string device_here(const RunOptions& run) {
  const bool only_cpu = run.precision == Precision::kFp64 || run.driver == DriverName::kSim;
  return run.device == "auto" && only_cpu ? "cpu" : device_here(run.device);
}

Status check_machine(const LoadedRecipe& loaded) {
  LEEWAY_TRY(check_device(loaded.recipe.run.device));
  for (const std::string& device : loaded.recipe.mesh.devices) LEEWAY_TRY(check_device(device));
  return check_threads(loaded, core_count());
}

void set_up_compute(int64_t threads, Repeatable repeatable) {
  at::set_num_threads(static_cast<int>(threads == 0 ? core_count() : threads));
  // cuBLAS is repeatable only with a fixed workspace configuration. Keep the user's, if set.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(/*on=*/true,
                                     /*warn_only=*/repeatable == Repeatable::kPrefer);
  // Deterministic mode would also fill every new tensor with NaN, to expose reads of unwritten
  // memory.
  context.setDeterministicFillUninitializedMemory(false);
}

void set_up_compute(const Recipe& recipe) {
  keep_freed_memory();
  const bool flash = recipe.run.precision == Precision::kBf16;
  set_up_compute(threads_per_worker(recipe), flash ? Repeatable::kInsist : Repeatable::kPrefer);
}

}  // namespace leeway
