// A driver whose mesh is spread over several processes that share nothing but bytes. They live in
// one address space, so that a test can look at them; posts are the way between them, or couriers
// alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/loop/courier.h"
#include "drivers/loop/post.h"
#include "drivers/loop/process.h"
#include "drivers/threads/wall_clock.h"
#include "worker/driver.h"

namespace leeway {

// The processes have one disk.
class LockedStore final : public ShardStore {
 public:
  explicit LockedStore(ShardStore* store) : store_(store) {}
  Result<Stored> store(const StageState& state) override {
    const std::lock_guard lock(mutex_);
    return store_->store(state);
  }

 private:
  ShardStore* store_;
  std::mutex mutex_;
};

class Processes final : public Driver {
 public:
  struct Options {
    // Where a worker lives. The coordinator lives in process 0.
    std::function<size_t(WorkerId)> process_of;
    // The journal of every process but the first, which has the recorder; none: all share that.
    std::function<std::unique_ptr<Journal>(size_t process, const RunPlan&, const Clock&)> journal =
        {};
    // One for each process, whose handlers these are; none: what one sends another one receives.
    std::function<std::vector<std::unique_ptr<Post>>(std::vector<Post::Handlers>)> posts = {};
    // Of a parcel with this message; none: every one must arrive.
    std::function<uint64_t(const Message&, const RunPlan&)> slot = {};
  };
  explicit Processes(Options options) : options_(std::move(options)) {}

  using Driver::run;
  Status run(const Workers& workers, Recorder& recorder, ShardStore* shards) override {
    const RunPlan& plan = workers.front()->plan();
    LockedRecorder shared(recorder, &recorder);
    LockedStore store(shards);
    size_t count = 1;
    for (const auto& worker : workers) {
      count = std::max(count, options_.process_of(worker->id()) + 1);
    }
    std::vector<std::unique_ptr<Journal>> journals(count);
    std::vector<std::unique_ptr<Process>> processes;
    std::vector<std::unique_ptr<Post>> posts;
    std::vector<std::unique_ptr<Courier>> couriers;  // one for each process that sends
    const auto home = [&](WorkerId id) {
      return id == kCoordinator ? size_t{0} : options_.process_of(id);
    };
    for (size_t at = 0; at < count; ++at) {
      if (at > 0 && options_.journal) journals[at] = options_.journal(at, plan, clock_);
      std::vector<Worker*> here;
      for (Worker* worker : pointers_to(workers)) {
        if (home(worker->id()) == at) here.push_back(worker);
      }
      processes.push_back(std::make_unique<Process>(ProcessOptions{
          .plan = plan,
          .workers = std::move(here),
          .journal = journals[at] ? *journals[at] : shared,
          .recorder = at == 0 ? &shared : nullptr,
          .clock = clock_,
          .shards = shards == nullptr ? nullptr : &store,
          .router = [&couriers, at](Message message) { couriers[at]->take(std::move(message)); }}));
    }
    posts = open_posts(processes);
    for (size_t at = 0; at < count; ++at) {
      couriers.push_back(
          std::make_unique<Courier>(plan, [&, at](const Message& message, auto bytes) {
            const size_t to = home(message.to);
            if (posts.empty()) {
              EXPECT_TRUE(processes[to]->receive(bytes));
            } else {
              posts[at]->send({static_cast<int64_t>(to)},
                              {.traffic = class_of(message.kind),
                               .slot = options_.slot ? options_.slot(message, plan) : 0,
                               .bytes = std::move(bytes)});
            }
          }));
    }
    recorder.begun(processes.back()->asker());  // the user may sit at any of them
    std::vector<std::thread> threads;
    std::exception_ptr failure;
    std::mutex mutex;
    for (const auto& process : processes) {
      threads.emplace_back([&process = *process, &failure, &mutex] {
        try {
          process.run();
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    couriers.clear();  // what is still on its way belongs to this run
    for (const auto& post : posts) post->close();
    if (failure) std::rethrow_exception(failure);
    return {};
  }
  const Clock& clock() const override { return clock_; }

 private:
  std::vector<std::unique_ptr<Post>> open_posts(
      const std::vector<std::unique_ptr<Process>>& processes) const {
    if (!options_.posts) return {};
    std::vector<Post::Handlers> handlers;
    for (const auto& process : processes) {
      handlers.push_back({.received = [&process = *process](ProcessId, const Parcel& parcel) {
        EXPECT_TRUE(process.receive(parcel.bytes));
      }});
    }
    return options_.posts(std::move(handlers));
  }

  Options options_;
  threads::WallClock clock_;
};

// Every worker and the coordinator behind mailboxes of their own, with nothing but bytes between.
inline std::unique_ptr<Driver> one_process_each(int64_t stages) {
  return std::make_unique<Processes>(Processes::Options{
      .process_of = [stages](WorkerId id) { return 1 + Mesh{.stages = stages}.index(id); }});
}

}  // namespace leeway
