#include <sys/prctl.h>

#include <cstdlib>

#include "cli/app.h"
#include "cli/large_pages.h"
#include "cli/matrix_unit.h"

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "leeway");             // or ps shows `exe` for runs of `compare`
  leeway::cli::avoid_unusable_matrix_unit();  // before oneDNN queries the CPU
  leeway::cli::prefer_large_pages();          // before the first tensor
  // CUDA's streams share eight queues, where one that waits holds up the others. Before any thread.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  return leeway::cli::run(argc, argv);
}
