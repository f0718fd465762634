#include "run/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>
#include <system_error>

namespace leeway {

Error failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError&) {
    return Error{
        "out of GPU memory; lower data.batch, raise pipeline.update_every, or make the model "
        "smaller"};
  } catch (const std::bad_alloc&) {
    return Error{"out of memory; lower data.batch or make the model smaller"};
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

}  // namespace leeway
