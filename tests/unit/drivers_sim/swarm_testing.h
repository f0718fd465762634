// Shared by the swarm tests: dice, and the command that repeats a seed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "base/rng.h"
#include "sim_testing.h"

namespace leeway::sim {

inline int seed_count() {
  const char* const wanted = std::getenv("LEEWAY_SWARM_SEEDS");
  return wanted == nullptr ? 50 : std::atoi(wanted);
}

// A broken rule aborts the program, so the command that repeats it is printed on abort.
inline std::array<char, 200> repeat_command = {};
inline void print_command(int) {
  (void)!write(STDERR_FILENO, repeat_command.data(), std::strlen(repeat_command.data()));
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : key_{.seed = seed, .stream = Stream::kSampler, .name = 0} {}
  int64_t operator()(int64_t from, int64_t to) {  // both included
    return from + static_cast<int64_t>(random_bits(key_, counter_++) %
                                       static_cast<uint64_t>(to - from + 1));
  }
  bool one_in(int64_t n) { return (*this)(1, n) == 1; }

 private:
  RandomKey key_;
  uint64_t counter_ = 0;
};

class SeededTest : public testing::TestWithParam<int> {
 protected:
  SeededTest() {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string command =
        std::string("to repeat it: build/tests/unit_drivers_sim --gtest_filter='") +
        info.test_suite_name() + "." + info.name() + "'\n";
    repeat_command.fill('\0');
    command.copy(repeat_command.data(), repeat_command.size() - 1);
    before_ = std::signal(SIGABRT, print_command);
  }
  ~SeededTest() override { std::signal(SIGABRT, before_); }

  static uint64_t seed() { return static_cast<uint64_t>(GetParam()); }

 private:
  void (*before_)(int) = nullptr;
};

// The stages of a replica save after the same updates, each once; `together`: so do all replicas.
inline void check_saves(const Notebook& recorder, const RunPlan& plan, bool together) {
  const auto saves_of = [&](int64_t replica, int64_t stage) {
    std::vector<int64_t> updates;
    for (const WorkRecord& record : recorder.of({{replica}, {stage}}, WorkKind::kSave))
      updates.push_back(record.work.update);
    return updates;
  };
  for (int64_t r = 0; r < plan.replicas; ++r) {
    const std::vector<int64_t> first = saves_of(together ? 0 : r, 0);
    EXPECT_TRUE(std::ranges::is_sorted(first, std::less_equal<>())) << "each once, in order";
    for (int64_t s = 0; s < plan.shape.stages; ++s) EXPECT_EQ(saves_of(r, s), first);
  }
}

inline LinkOptions random_link(Dice& dice) {
  LinkOptions link;
  if (!dice.one_in(3)) link.latency = dice(0, 3000) * kMicrosecond;
  if (!dice.one_in(3)) link.bytes_per_second = 1e6 * static_cast<double>(dice(1, 1000));
  if (!dice.one_in(3)) link.jitter = dice(0, 3000) * kMicrosecond;
  return link;
}

}  // namespace leeway::sim
