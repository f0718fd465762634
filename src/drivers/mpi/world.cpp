#include "drivers/mpi/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <utility>

#include "base/check.h"

namespace leeway::mpi {
namespace {

using std::chrono::microseconds;

// MPI cannot be waited for, only asked. A thread that asks without end takes a core away from
// training; one that asks rarely lets messages lie. So it asks at once for as long as something
// moves; then a message lies for a quarter of the time at most for which nothing has come.
constexpr int kQuietMax = 100;       // turns at once after the last that moved something
constexpr int kUnderWayMax = 2'000;  // likewise, while bytes are under way
constexpr microseconds kPauseMin{50};
constexpr microseconds kPauseMax{1'000};

// Since something has moved.
struct Quiet {
  int turns = 0;
  microseconds paused{0};
};

// Before the next turn.
microseconds pause_after(const Quiet& quiet, World::Pace pace) {
  const bool is_under_way = pace == World::Pace::kUnderWay;
  if (quiet.turns < (is_under_way ? kUnderWayMax : kQuietMax)) return microseconds{0};
  return is_under_way ? kPauseMin : std::clamp(quiet.paused / 4, kPauseMin, kPauseMax);
}

}  // namespace

bool started_by_mpi(const std::function<const char*(const char* name)>& lookup) {
  // Open MPI's mpirun; srun and other starters through PMIx; through PMI 1 and 2.
  const auto names = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  return std::ranges::any_of(names, [&](const char* name) { return lookup(name) != nullptr; });
}

Result<std::unique_ptr<World>> World::start() {
  std::unique_ptr<World> world(new World);
  std::promise<Result<Ranks>> promise;
  auto started = promise.get_future();
  world->thread_ = std::thread([&world = *world, promise = std::move(promise)]() mutable {
    world.work([&](Result<Ranks> ranks) { promise.set_value(std::move(ranks)); });
  });
  LEEWAY_ASSIGN(world->ranks_, started.get());
  return world;
}

World::~World() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void World::work(const std::function<void(Result<Ranks>)>& started) {
  thread_of_mpi_ = std::this_thread::get_id();
  Result<Ranks> ranks = initialize();
  const bool ok = ranks.ok();
  started(std::move(ranks));
  if (!ok) return;
  try {
    take_turns();
    finalize();
  } catch (const std::exception& failure) {
    abort(failure.what());
  }
}

void World::take_turns() {
  Quiet quiet;
  Pace pace = Pace::kNothing;
  while (true) {
    std::vector<Job> jobs;
    {
      std::unique_lock lock(mutex_);
      const auto called = [&] { return woken_ || ends_ || !jobs_.empty(); };
      const microseconds pause = pause_after(quiet, pace);
      if (!turn_) {
        changed_.wait(lock, called);
      } else if (pause.count() > 0) {
        quiet.paused += pause;
        if (changed_.wait_for(lock, pause, called)) quiet = {};
      }
      woken_ = false;
      jobs = std::exchange(jobs_, {});
      if (jobs.empty() && ends_) return;
    }
    for (const Job& job : jobs) job();
    if (!turn_) continue;
    pace = turn_();
    if (pace == Pace::kMoved) {
      quiet = {};
    } else {
      ++quiet.turns;
      std::this_thread::yield();
    }
  }
}

void World::abort(const std::string& sentence) {
  const auto end = [&sentence] {
    fmt::print(stderr, "leeway: {}\n", sentence);
    std::fflush(stderr);
    abort_job();
  };
  if (on_thread_of_mpi()) end();
  call(end);
  LEEWAY_UNREACHABLE("the job has ended");
}

bool World::on_thread_of_mpi() const { return std::this_thread::get_id() == thread_of_mpi_; }

void World::call(const Job& job) {
  LEEWAY_CHECK(!on_thread_of_mpi(), "the thread of MPI would wait for itself");
  std::promise<void> done;
  add([&] {
    job();
    done.set_value();
  });
  done.get_future().wait();
}

void World::add(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void World::give_turns_to(Turn turn) {
  LEEWAY_CHECK(!turn || !turn_, "one at a time has turns");
  turn_ = std::move(turn);
}

void World::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_one();
}

}  // namespace leeway::mpi
