// A run that is spread over several processes, each with a log of its own, merges into one run that
// replays to the bit.
#include "run/process_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/no_recorder.h"
#include "../../support/processes.h"
#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"
#include "base/hash.h"
#include "config/print.h"
#include "drivers/sim/replay.h"
#include "run/device.h"
#include "run/local_crew.h"
#include "run/merged_run.h"
#include "run/mesh_model.h"
#include "run/recipe_data.h"
#include "run/recording.h"
#include "run/training_run.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FixedClock final : public Clock {
 public:
  Nanos now() const override { return {}; }
};

TEST(ProcessLog, ALineNamesItsTickWhereAnotherProcessHasMovedTheClock) {
  const TemporaryFolder folder;
  const RunPlan plan = {.shape = {}};
  const FixedClock clock;
  ProcessLog log({.plan = plan, .clock = clock}, *EventLog::open(folder / "log", false));
  log.joined(/*process=*/1, /*session=*/1);
  log.write(Event("one"));
  log.move_tick_to(10);
  log.move_tick_to(5);
  EXPECT_EQ(log.tick(), 10);
  log.write(Event("two"));
  log.write(Event("three"));
  log.flush();
  const auto history = read_events(folder / "log");
  ASSERT_TRUE(history.ok());
  std::vector<std::string> lines;
  for (const Event& event : history->events) {
    lines.push_back(event.kind() + " " + std::to_string(event.integer("tick").value_or(0)));
  }
  EXPECT_THAT(lines, ElementsAre("joined 0", "one 0", "two 11", "three 0"));
  EXPECT_EQ(log.tick(), 12);
}

class SpreadRun : public testing::Test {
 protected:
  SpreadRun() {
    write_small_text(place_ / "text");
    loaded_ =
        *small_recipe(place_ / "text",
                      {"run.updates=30", "run.evaluate_every=10", "run.log=all", "mesh.replicas=3",
                       "averaging.merge=on_arrival", "averaging.fraction=0.5"});
    set_up_compute(loaded_.recipe);
    data_.emplace(*open_dataset(data_spec(loaded_.recipe), place_ / "cache", {}));
  }

  Path folder(size_t process) const { return place_ / ("process-" + std::to_string(process)); }

  // Each replica is a process, and the coordinator lives with the first.
  Result<TrainingSummary> run_session(int64_t session, int64_t stop_at) {
    LocalCrew crew(std::make_unique<Processes>(Processes::Options{
        .process_of = [](WorkerId id) { return static_cast<size_t>(id.replica.value); },
        .journal = [&](size_t process, const RunPlan& plan,
                       const Clock& clock) { return journal(process, session, plan, clock); }}));
    const HeldFolder held = *HeldFolder::hold(folder(0));
    return train({.recipe = loaded_.recipe,
                  .recipe_text = print_recipe(loaded_),
                  .folder = held,
                  .resume = session > 1,
                  .stop_at = stop_at},
                 *data_, crew, {});
  }
  std::unique_ptr<Journal> journal(size_t process, int64_t session, const RunPlan& plan,
                                   const Clock& clock) const {
    EXPECT_TRUE(make_folder(folder(process)).ok());
    auto log = std::make_unique<ProcessLog>(
        ProcessLogOptions{.level = LogLevel::kAll, .plan = plan, .clock = clock},
        *EventLog::open(folder(process) / "events.jsonl", /*append=*/session > 1));
    log->joined(static_cast<int64_t>(process), session);
    return log;
  }

  // The hash of the weights that a replay of this run ends with, or what is wrong.
  std::string replayed(const Path& run) const {
    const auto recording = read_recording(run);
    if (!recording.ok()) return recording.error().message;
    const MeshData mesh = {
        .train = data_->train, .valid = nullptr, .vocabulary = data_->vocabulary};
    const auto plan = plan_to_repeat(*recording, loaded_.recipe, mesh);
    if (!plan.ok()) return plan.error().message;
    const Workers workers = make_workers(loaded_.recipe, mesh, *plan);
    NoRecorder recorder;
    const Status done =
        sim::replay(workers, recording->work, recorder, {.coverage = recording->coverage});
    if (!done.ok()) return done.error().message;
    const std::string hash = hash_hex(hash_of(weights_of(workers)));
    return hash == recording->weights_hash ? "identical" : "other weights";
  }

  TemporaryFolder place_;
  LoadedRecipe loaded_;
  std::optional<Dataset> data_;
};

TEST_F(SpreadRun, ItsLogsMergeIntoOneThatReplaysToTheBit) {
  const auto summary = run_session(1, 0);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->finished);
  EXPECT_THAT(replayed(folder(0)), HasSubstr("leeway merge")) << "one process of three";
  const auto merged =
      merge_run({.run = folder(0), .others = {folder(1), folder(2)}, .out = place_ / "merged"});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_THAT(merged->warnings, ElementsAre());
  const auto partly =
      merge_run({.run = folder(0), .others = {folder(1)}, .out = place_ / "partly"});
  ASSERT_TRUE(partly.ok()) << partly.error().message;
  EXPECT_THAT(partly->warnings, ElementsAre(HasSubstr("the work of replica 2, stage 0")));
  EXPECT_EQ(replayed(place_ / "merged"), "identical");
}

TEST_F(SpreadRun, SoDoTheLogsOfSeveralSessions) {
  ASSERT_TRUE(run_session(1, /*stop_at=*/12).ok());
  const auto summary = run_session(2, 0);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto merged =
      merge_run({.run = folder(0), .others = {folder(2), folder(1)}, .out = place_ / "merged"});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(replayed(place_ / "merged"), "identical");
}

}  // namespace
}  // namespace leeway
