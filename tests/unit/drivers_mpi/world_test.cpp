#include "drivers/mpi/world.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace leeway::mpi {
namespace {

bool started_with(const std::map<std::string, std::string>& environment) {
  return started_by_mpi([&](const char* name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  });
}

TEST(StartedByMpi, IsWhatTheEnvironmentSays) {
  EXPECT_FALSE(started_with({}));
  EXPECT_FALSE(started_with({{"HOME", "0"}, {"SLURM_JOB_ID", "17"}}));
  EXPECT_TRUE(started_with({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(started_with({{"PMIX_RANK", "0"}}));
  EXPECT_TRUE(started_with({{"PMI_RANK", "2"}}));
}

#ifndef LEEWAY_MPI
TEST(World, ABuildWithoutMpiSaysSo) {
  const auto world = World::start();
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.error().message.find("this build has no MPI;"), 0u);
}
#endif

}  // namespace
}  // namespace leeway::mpi
