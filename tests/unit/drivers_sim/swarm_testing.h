// Shared by the swarm tests: dice, seeds one after the other, and the command that repeats one.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "base/rng.h"
#include "sim_testing.h"

namespace leeway::sim {

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

// While one seed runs: if it fails, the command that repeats it alone is printed. A broken rule
// aborts the program and a run that never ends has to be stopped, so signals are watched too.
class SeedGuard {
 public:
  explicit SeedGuard(uint64_t seed) {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    const std::string text = "to repeat it: LEEWAY_SWARM_SEED=" + std::to_string(seed) + " " +
                             program.lexically_proximate(std::filesystem::current_path()).string() +
                             " --gtest_filter=" + info.test_suite_name() + "." + info.name() + "\n";
    command_.fill('\0');
    text.copy(command_.data(), command_.size() - 1);
    struct sigaction action = {};
    action.sa_handler = failed;
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
    ::alarm(kSecondsMax);
  }
  SeedGuard(const SeedGuard&) = delete;
  SeedGuard& operator=(const SeedGuard&) = delete;
  ~SeedGuard() {
    ::alarm(0);
    restore();
    if (testing::Test::HasFailure() || std::uncaught_exceptions() > 0) print();
  }

 private:
  static void print() { (void)!::write(STDERR_FILENO, command_.data(), ::strlen(command_.data())); }
  static void restore() {
    for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  // What was there before, such as a sanitizer, has the last word.
  static void failed(int signal) {
    print();
    restore();
    if (signal == SIGALRM) std::abort();
  }

  static constexpr unsigned kSecondsMax = 300;  // a seed takes milliseconds, with sanitizers too
  static constexpr std::array<int, 3> kSignals = {SIGABRT, SIGSEGV, SIGALRM};
  static inline std::array<char, 500> command_ = {};
  static inline std::array<struct sigaction, kSignals.size()> before_ = {};
};

// How much of a swarm runs: `seeds` seeds from 0, or its share of LEEWAY_SWARM_SECONDS. They
// ascend, so that a longer run does what a shorter one did, and more. LEEWAY_SWARM_FIRST begins
// elsewhere, and LEEWAY_SWARM_SEED runs one alone. The shares of all swarms add up to 1.
struct SwarmSize {
  int64_t seeds = 50;
  double share = 0;
};

inline std::optional<int64_t> swarm_setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<int64_t>(std::atoll(value));
}

// Stops at the first seed that fails.
inline void run_swarm(const SwarmSize& size, const std::function<void(uint64_t seed)>& run) {
  using Clock = std::chrono::steady_clock;
  const auto only = swarm_setting("LEEWAY_SWARM_SEED");
  const auto seconds = swarm_setting("LEEWAY_SWARM_SECONDS");
  const int64_t first = only.value_or(swarm_setting("LEEWAY_SWARM_FIRST").value_or(0));
  const bool by_time = !only && seconds;
  const int64_t count = only ? 1 : by_time ? std::numeric_limits<int64_t>::max() : size.seeds;
  const std::chrono::duration<double> limit(by_time ? static_cast<double>(*seconds) * size.share
                                                    : 0.0);
  const auto begin = Clock::now();
  int64_t done = 0;
  while (done < count && !(by_time && Clock::now() - begin >= limit)) {
    const auto seed = static_cast<uint64_t>(first + done);
    const SeedGuard guard(seed);
    run(seed);
    if (testing::Test::HasFailure()) return;
    ++done;
  }
  if (!by_time) return;
  std::printf("%s: seeds %lld to %lld\n",
              testing::UnitTest::GetInstance()->current_test_info()->test_suite_name(),
              static_cast<long long>(first), static_cast<long long>(first + done - 1));
}

// The same for runs that return a digest. One seed in ten runs twice, and must be the same run.
inline void run_swarm_of_digests(const SwarmSize& size,
                                 const std::function<uint64_t(uint64_t seed)>& run) {
  run_swarm(size, [&](uint64_t seed) {
    const uint64_t digest = run(seed);
    if (seed % 10 != 0) return;
    EXPECT_EQ(digest, run(seed)) << "not the same run twice";
  });
}

// Runs a scenario, and checks that every worker has finished.
template <class Scenario>
void run_to_the_end(const Scenario& scenario, Simulation& simulation, Notebook& recorder) {
  const IdleWorkers workers = make_mesh(scenario.plan);
  recorder.stop_after(scenario.stop_after);
  recorder.save_after(scenario.save_after);
  EXPECT_TRUE(simulation.run(workers, recorder).ok());
  for (const auto& worker : workers) {
    EXPECT_TRUE(worker->done());
    if (scenario.stop_after == SIZE_MAX) {
      EXPECT_EQ(worker->counts().updates, scenario.plan.last_update);
    }
  }
}

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
