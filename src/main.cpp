#include <sys/prctl.h>

#include "cli/app.h"
#include "cli/large_pages.h"
#include "cli/matrix_unit.h"

int main(int argc, char** argv) {
  ::prctl(PR_SET_NAME, "leeway");             // or ps shows `exe` for runs of `compare`
  leeway::cli::avoid_unusable_matrix_unit();  // before oneDNN queries the CPU
  leeway::cli::prefer_large_pages();          // before the first tensor
  return leeway::cli::run(argc, argv);
}
