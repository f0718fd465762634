#include "recipe/thread_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& sets, int64_t cores) {
  const auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  if (!loaded.ok()) return loaded.error().message;
  const Status status = check_threads(*loaded, cores);
  return status.ok() ? "ok" : status.error().message;
}

TEST(CheckThreads, BoundsTheThreadsOfAWorkerByTheCores) {
  EXPECT_EQ(refusal({}, 2), "ok");
  EXPECT_EQ(refusal({"run.threads_per_worker=16"}, 2), "ok");
  EXPECT_EQ(refusal({"run.threads_per_worker=4096"}, 2),
            "run.threads_per_worker = 4096 (--set) is more than this machine can use: it has 2 "
            "cores; give 16 or less, or 0 to leave it to Leeway");
  EXPECT_EQ(refusal({"run.threads_per_worker=256"}, 64), "ok");
}

TEST(CheckThreads, BoundsTheThreadsOfAllWorkers) {
  const std::vector<std::string> many = {"mesh.stages=4096", "mesh.replicas=2", "model.layers=4096",
                                         "data.batch=4096"};
  EXPECT_THAT(refusal(many, 2), HasSubstr("8192 workers, 8192 threads in all"));
  std::vector<std::string> simulated = many;
  simulated.push_back("run.driver=sim");
  EXPECT_EQ(refusal(simulated, 2), "ok");
}

}  // namespace
}  // namespace leeway
