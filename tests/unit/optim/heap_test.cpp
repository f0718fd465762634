// An update allocates nothing. This program replaces the C library's allocators with ones that
// count, so that nothing can bypass them. Sanitizers replace them too, so this test is off with
// those.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__gnu_linux__)

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "optim/optimizer.h"

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<size_t> largest_bytes{0};

void count(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  size_t seen = largest_bytes.load(std::memory_order_relaxed);
  while (seen < bytes && !largest_bytes.compare_exchange_weak(seen, bytes)) {
  }
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count(bytes);
  return __libc_malloc(bytes);
}

int posix_memalign(void** pointer, size_t alignment, size_t bytes) {
  count(bytes);
  *pointer = __libc_memalign(alignment, bytes);
  return *pointer == nullptr ? 12 : 0;
}
}

namespace leeway {
namespace {

const ParameterLayout kLayout = {{"embedding", ParameterKind::kEmbedding, 0, 300, 64},
                                 {"norm", ParameterKind::kVector, 19200, 1, 64},
                                 {"q", ParameterKind::kMatrix, 19264, 64, 64},
                                 {"up", ParameterKind::kMatrix, 23360, 160, 64},
                                 {"k", ParameterKind::kMatrix, 33600, 64, 64}};

struct HeapWork {
  int64_t allocations = 0;
  size_t largest_bytes = 0;
};

HeapWork heap_work_of_an_update(UpdateRule rule) {
  Optimizer optimizer({.rule = rule, .decay = 0.1}, kLayout, at::kFloat);
  const int64_t length = parameter_count(kLayout);
  const UpdateArguments arguments = {.weights = at::randn({length}),
                                     .gradients = at::randn({length}),
                                     .compute = at::empty({length}, at::kBFloat16)};
  optimizer.update(arguments);  // threads and libraries initialize here
  const int64_t before = allocations.load();
  largest_bytes = 0;
  optimizer.update(arguments);
  return {.allocations = allocations.load() - before, .largest_bytes = largest_bytes.load()};
}

TEST(Heap, TheCounterSeesTensorsAndObjects) {
  const int64_t before = allocations.load();
  largest_bytes = 0;
  const at::Tensor tensor = at::empty({5000});
  EXPECT_GE(allocations.load() - before, 2);  // its storage, and the object that holds it
  EXPECT_GE(largest_bytes.load(), 20000U);
}

TEST(Heap, AnUpdateAllocatesNothing) {
  EXPECT_EQ(heap_work_of_an_update(UpdateRule::kAdamW).allocations, 0);
  EXPECT_EQ(heap_work_of_an_update(UpdateRule::kNAdamW).allocations, 0);
  EXPECT_EQ(heap_work_of_an_update(UpdateRule::kSgd).allocations, 0);
}

TEST(Heap, MuonAllocatesNoBuffers) {
  // The matrix products make small objects (views, descriptors), nothing as large as a matrix.
  EXPECT_LT(heap_work_of_an_update(UpdateRule::kMuon).largest_bytes, 64U * 64U * sizeof(float));
}

}  // namespace
}  // namespace leeway

#endif
