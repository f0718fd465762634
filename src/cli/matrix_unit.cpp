#include "cli/matrix_unit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace leeway::cli {
namespace {

#if defined(__x86_64__)
// Whether the kernel has enabled the tile registers and lets this process use them.
bool matrix_unit_usable() {
  if (__builtin_cpu_supports("avx") == 0) return false;  // no xgetbv instruction
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr uint32_t kTiles = (1U << 17) | (1U << 18);  // XCR0: tile configuration, tile data
  constexpr long kRequestPermission = 0x1023;           // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return (low & kTiles) == kTiles && ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool matrix_unit_usable() { return true; }
#endif

}  // namespace

void avoid_unusable_matrix_unit() {
  if (!matrix_unit_usable()) ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
}

}  // namespace leeway::cli
