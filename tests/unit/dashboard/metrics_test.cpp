#include "dashboard/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

RunData some_run() {
  RunData run;
  run.name = "first";
  run.version = "0.1.0";
  run.headline.updates = 12;
  run.headline.tokens = 3'000'000'000'000;
  run.headline.train_loss = 2.5;
  run.headline.consensus = 0.125;
  run.headline.bytes = {1, 2, 3, 4};
  run.headline.bytes_allreduce = 99;
  run.curves[static_cast<size_t>(Curve::kTokensPerSecond)].add({{.update = 1}, 100});
  run.curves[static_cast<size_t>(Curve::kTokensPerSecond)].add({{.update = 2}, 250});
  WorkerData worker;
  worker.worker = {ReplicaId{1}, StageId{2}};
  worker.busy = {.busy_ns = 3, .whole_ns = 4};
  worker.delays.add(0);
  worker.delays.add(1);
  run.workers.push_back(worker);
  return run;
}

TEST(Metrics, AreTheNumbersOfTheRun) {
  const std::string text = metrics_text(some_run());
  EXPECT_THAT(text, HasSubstr("# HELP leeway_updates_total Updates completed by every worker.\n"
                              "# TYPE leeway_updates_total counter\n"
                              "leeway_updates_total 12\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_tokens_total 3000000000000\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE leeway_train_loss gauge\nleeway_train_loss 2.5\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_consensus 0.125\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_tokens_per_second 250\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_busy_share{replica=\"1\",stage=\"2\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_delay_mean{replica=\"1\",stage=\"2\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_bytes_total{purpose=\"averaging\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_allreduce_bytes_total 99\n"));
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(Metrics, LeaveOutUnknownValues) {
  const std::string text = metrics_text(RunData());
  EXPECT_THAT(text, HasSubstr("\nleeway_updates_total 0\n"));
  for (const char* name : {"train_loss", "valid_loss", "lag_mean", "busy_share", "allreduce"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(Metrics, EscapeNamesAndWriteSpecialValues) {
  RunData run = some_run();
  run.name = "a \"b\"\\c\nd";
  run.headline.train_loss = std::numeric_limits<double>::quiet_NaN();
  run.headline.valid_loss = std::numeric_limits<double>::infinity();
  const std::string text = metrics_text(run);
  EXPECT_THAT(text, HasSubstr(R"(run="a \"b\"\\c\nd")"));
  EXPECT_THAT(text, HasSubstr("\nleeway_train_loss NaN\n"));
  EXPECT_THAT(text, HasSubstr("\nleeway_valid_loss +Inf\n"));
}

}  // namespace
}  // namespace leeway
