#include "run/device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/process.h"
#include "recipe/thread_check.h"
#include "run/drivers.h"

namespace leeway {

Status check_device(const std::string& device) {
  if (device == "cpu") return {};
  const int count = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  if (count == 0) {
    return usage_error(
        fmt::format("{} was requested, but {}; use run.device = \"cpu\"", device,
                    at::hasCUDA() ? "no GPU is visible" : "this LibTorch is built without CUDA"));
  }
  const at::Device wanted(device);
  if (wanted.has_index() && wanted.index() >= count) {
    return usage_error(
        fmt::format("{} was requested, but the number of visible GPUs is {}; the first is cuda:0",
                    device, count));
  }
  return {};
}

Status check_machine(const LoadedRecipe& loaded) {
  LEEWAY_TRY(check_device(loaded.recipe.run.device));
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
