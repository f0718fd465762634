// The program's main as a function that Python can call: one profiler then sees PyTorch and us.
#include "cli/app.h"
#include "cli/large_pages.h"
#include "cli/matrix_unit.h"

extern "C" int leeway_main(int argc, char** argv) {
  leeway::cli::avoid_unusable_matrix_unit();
  leeway::cli::prefer_large_pages();
  return leeway::cli::run(argc, argv);
}
