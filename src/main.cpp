#include <c10/util/Exception.h>
#include <sys/prctl.h>

#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "cli/app.h"
#include "cli/large_pages.h"
#include "cli/matrix_unit.h"

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "leeway");             // or ps shows `exe` for runs of `compare`
  leeway::cli::avoid_unusable_matrix_unit();  // before oneDNN queries the CPU
  leeway::cli::prefer_large_pages();          // before the first tensor
  try {
    return leeway::cli::run(argc, argv);
  } catch (const c10::OutOfMemoryError&) {
    std::fprintf(stderr,
                 "leeway: out of GPU memory; lower data.batch, raise "
                 "pipeline.update_every, or make the model smaller\n");
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "leeway: out of memory; lower data.batch or make the model smaller\n");
  } catch (const std::system_error& error) {
    const bool threads = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(stderr, "leeway: failed: %s%s\n", error.code().message().c_str(),
                 threads ? "; the system gives no more threads: lower run.threads_per_worker, "
                           "mesh.stages or mesh.replicas"
                         : "");
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "leeway: LibTorch failed: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "leeway: failed: %s\n", error.what());
  }
  return 1;
}
