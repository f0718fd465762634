#include "base/process.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>

namespace leeway {

int64_t peak_rss_bytes() {
  struct rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

int64_t core_count() {
  cpu_set_t allowed;  // not the machine's cores: those that this process may use
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

void release_freed_memory() { ::malloc_trim(0); }

}  // namespace leeway
