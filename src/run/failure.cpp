#include "run/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstring>
#include <new>
#include <system_error>

#include "recipe/memory_check.h"
#include "recipe/mesh_report.h"
#include "recipe/planned_memory.h"

namespace leeway {
namespace {

enum class Memory { kEnough, kMachine, kGpu };

// Which memory has run out. LibTorch has a type of its own only for GPUs.
Memory lacking(const std::exception_ptr& thrown) {
  const auto says = [](const c10::Error& error, const char* words) {
    return std::strstr(error.what_without_backtrace(), words) != nullptr;
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError&) {
    return Memory::kGpu;
  } catch (const c10::Error& error) {
    if (says(error, "CUBLAS_STATUS_ALLOC_FAILED")) return Memory::kGpu;
    return says(error, "DefaultCPUAllocator: ") ? Memory::kMachine : Memory::kEnough;
  } catch (const std::bad_alloc&) {
    return Memory::kMachine;
  } catch (...) {
    return Memory::kEnough;
  }
}

const char* sentence(Memory lacking) {
  return lacking == Memory::kGpu ? "out of GPU memory" : "out of memory";
}

}  // namespace

Error failure_of(const std::exception_ptr& thrown) {
  if (const Memory memory = lacking(thrown); memory != Memory::kEnough) {
    return Error{fmt::format("{}; lower data.batch or make the model smaller", sentence(memory))};
  }
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    const bool threads = error.code() == std::errc::resource_unavailable_try_again;
    return Error{fmt::format(
        "failed: {}{}", error.code().message(),
        threads ? "; the system gives no more threads: lower run.threads_per_worker, mesh.stages "
                  "or mesh.replicas"
                : "")};
  } catch (const c10::Error& error) {
    return Error{fmt::format("LibTorch failed: {}", error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return Error{fmt::format("failed: {}", error.what())};
  } catch (...) {
    return Error{"failed: something was thrown that is not an exception"};
  }
}

Error failure_of(const std::exception_ptr& thrown, const Recipe& recipe,
                 std::optional<int64_t> vocabulary) {
  const Memory memory = lacking(thrown);
  if (memory == Memory::kEnough || !vocabulary) return failure_of(thrown);
  return Error{fmt::format(
      "{}; what is saved stays. This is what the run was planned to need, besides the program with "
      "its libraries and what others use:\n\n{}\nto go on with less, {}; a new run could {}",
      sentence(memory), memory_table(recipe, planned_memory(recipe, *vocabulary)),
      memory_advice_on_resume(recipe), memory_advice(recipe))};
}

}  // namespace leeway
