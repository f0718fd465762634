#include "worker/report_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<int64_t, int64_t>> kept(const ReportQueue& queue) {
  std::vector<std::pair<int64_t, int64_t>> numbers;  // and that of the one before
  for (size_t at = 0; at < queue.kept().size(); ++at) {
    numbers.emplace_back(queue.kept()[at].number, queue.before(at));
  }
  return numbers;
}

TEST(ReportQueue, KeepsReportsUntilTheyAreRecorded) {
  ReportQueue queue;
  for (int64_t update = 1; update <= 3; ++update) queue.add(UpdateDone{.update = update});
  EXPECT_THAT(kept(queue), ElementsAre(Pair(1, 0), Pair(2, 1), Pair(3, 2)));
  queue.heard(2);
  EXPECT_THAT(kept(queue), ElementsAre(Pair(3, 0)));
}

// A worker that has finished says after every piece of work where it is.
TEST(ReportQueue, WhereAWorkerIsNeverPushesOutWhatItHasDone) {
  ReportQueue queue;
  queue.add(ShardSaved{});
  queue.add(Finished{});
  for (int i = 0; i < 1000; ++i) queue.add(Present{});
  EXPECT_THAT(kept(queue), ElementsAre(Pair(1, 0), Pair(2, 1), Pair(1002, 2)));
}

// Each is a file that is on disk: a checkpoint may need them all.
TEST(ReportQueue, ANewerShardDoesNotPushOutAnOlderOne) {
  ReportQueue queue;
  queue.add(ShardSaved{});
  queue.add(UpdateDone{});
  queue.add(ShardSaved{});
  EXPECT_THAT(kept(queue), ElementsAre(Pair(1, 0), Pair(2, 1), Pair(3, 2)));
}

TEST(ReportQueue, ForgetsTheOldestInTheEnd) {
  ReportQueue queue;
  for (int64_t update = 1; update <= 300; ++update) queue.add(UpdateDone{.update = update});
  EXPECT_EQ(queue.kept().size(), 256U);
  EXPECT_EQ(queue.kept().front().number, 45);
}

}  // namespace
}  // namespace leeway
