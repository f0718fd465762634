#include "drivers/mpi/parcel_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace leeway::mpi {
namespace {

Addressed addressed(int64_t number, uint64_t slot = 0, ProcessId to = {2}) {
  return {.from = {1}, .to = to, .parcel = {.session = number, .slot = slot}};
}

std::vector<int64_t> taken(ParcelQueue& queue) {
  std::vector<int64_t> numbers;
  while (!queue.empty()) numbers.push_back(queue.take().parcel.session);
  return numbers;
}

TEST(ParcelQueue, KeepsTheOrder) {
  ParcelQueue queue;
  for (int64_t number = 0; number < 5; ++number) EXPECT_TRUE(queue.put(addressed(number)));
  EXPECT_EQ(taken(queue), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(ParcelQueue, ANewerOneTakesThePlaceOfOneWithItsSlot) {
  ParcelQueue queue;
  EXPECT_TRUE(queue.put(addressed(0)));
  EXPECT_TRUE(queue.put(addressed(1, /*slot=*/7)));
  EXPECT_TRUE(queue.put(addressed(2)));
  EXPECT_TRUE(queue.put(addressed(3, /*slot=*/8)));
  EXPECT_FALSE(queue.put(addressed(4, /*slot=*/7)));
  EXPECT_FALSE(queue.put(addressed(5, /*slot=*/7)));
  EXPECT_EQ(taken(queue), (std::vector<int64_t>{0, 5, 2, 3}));
}

TEST(ParcelQueue, OneThatHasBegunToLeaveIsNotReplaced) {
  ParcelQueue queue;
  queue.put(addressed(0, /*slot=*/7));
  EXPECT_EQ(queue.take().parcel.session, 0);
  EXPECT_TRUE(queue.put(addressed(1, /*slot=*/7)));
  EXPECT_FALSE(queue.put(addressed(2, /*slot=*/7)));
  EXPECT_EQ(taken(queue), (std::vector<int64_t>{2}));
}

TEST(ParcelQueue, SlotsOfTwoReceiversAreTwoSlots) {
  ParcelQueue queue;
  EXPECT_TRUE(queue.put(addressed(0, /*slot=*/7, /*to=*/{0})));
  EXPECT_TRUE(queue.put(addressed(1, /*slot=*/7, /*to=*/{1})));
  EXPECT_EQ(taken(queue), (std::vector<int64_t>{0, 1}));
}

}  // namespace
}  // namespace leeway::mpi
