#include "data/ordered_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>

namespace leeway {
namespace {

int twice(const int& number) { return 2 * number; }

void expect_results_in_order(OrderedPool<int, int>& pool) {
  for (int i = 0; i < 100; ++i) pool.push(i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pool.pop(), 2 * i);
  EXPECT_TRUE(pool.empty());
}

TEST(OrderedPool, GivesResultsInTheOrderOfTheWork) {
  OrderedPool<int, int> pool(4, twice);
  expect_results_in_order(pool);
  EXPECT_FALSE(pool.try_pop().has_value());
}

TEST(OrderedPool, DropsResultsThatAreNotTaken) {
  OrderedPool<int, int> pool(2, twice);
  for (int i = 0; i < 100; ++i) pool.push(i);
}

TEST(OrderedPool, ThrowsWhatTheWorkHasThrownWhereItsResultIsTaken) {
  OrderedPool<int, int> pool(2, [](const int& number) {
    if (number == 1) throw std::bad_alloc();
    return twice(number);
  });
  for (int i = 0; i < 3; ++i) pool.push(i);
  EXPECT_EQ(pool.pop(), 0);
  EXPECT_THROW(pool.pop(), std::bad_alloc);
  EXPECT_EQ(pool.pop(), 4);
}

// Limits how much more address space this process gets while it lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t more_bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &previous_), 0);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = previous_;
    limit.rlim_cur = pages * static_cast<rlim_t>(::getpagesize()) + more_bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;
  ~AddressSpaceLimit() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &previous_), 0); }

 private:
  rlimit previous_ = {};
};

TEST(OrderedPool, WorksWithTheThreadsThatTheSystemGives) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need extra address space for every thread";
#endif
  const AddressSpaceLimit limit(256 * 1024 * 1024);
  OrderedPool<int, int> pool(1000, twice);  // Their stacks alone take 2 to 8 GB.
  expect_results_in_order(pool);
}

}  // namespace
}  // namespace leeway
