#include "run/recorder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"
#include "../../support/tiny_run.h"
#include "run/shard_folder.h"

namespace leeway {
namespace {

class StoppedClock final : public Clock {
 public:
  Nanos now() const override { return {}; }
};

// Two replicas of one stage; every piece of work sends one byte.
class RunRecorderTest : public testing::Test {
 protected:
  void work(WorkKind kind, int64_t replica, int64_t update, Lane lane = Lane::kMain) {
    WorkRecord record;
    record.worker = {.replica = {replica}, .stage = {0}};
    record.work.kind = kind;
    record.work.update = update;
    record.work.lane = lane;
    record.bytes_sent = 1;
    recorder_.worked(record);
    keepers_[static_cast<size_t>(replica)].worked(record);
  }
  // Everything a replica does for an update, and its report.
  void update(int64_t replica, int64_t number) {
    work(WorkKind::kForward, replica, number);
    work(WorkKind::kBackward, replica, number);
    report(replica, number);
    work(WorkKind::kContribute, replica, number);
    work(WorkKind::kContribute, replica, number, Lane::kEvaluation);
  }
  void report(int64_t replica, int64_t number) {
    const WorkerId worker = {.replica = {replica}, .stage = {0}};
    tell_tally(replica);
    recorder_.updated({.worker = worker, .update = number, .loss = 1.0});
  }
  void tell_tally(int64_t replica) {
    recorder_.tallied({.replica = {replica}, .stage = {0}},
                      keepers_[static_cast<size_t>(replica)].tally());
  }

  TemporaryFolder folder_;
  HeldFolder held_ = std::move(*HeldFolder::hold(folder_ / "run"));
  Recipe recipe_;
  RunPlan plan_ = {.shape = {.stages = 1},
                   .replicas = 2,
                   .evaluation = {.lane = Lane::kEvaluation, .interval = 2}};
  std::vector<TallyKeeper> keepers_ = {{{{0}, {0}}, plan_}, {{{1}, {0}}, plan_}};
  StoppedClock clock_;
  TrainingObserver observer_;
  RunRecorder recorder_ =
      RunRecorder({.recipe = recipe_,
                   .plan = plan_,
                   .shape = tiny_shape(),
                   .folder = held_,
                   .clock = clock_,
                   .observer = observer_},
                  std::move(*EventLog::open(folder_ / "events.jsonl", false)), {}, {});
};

TEST_F(RunRecorderTest, CountsTheBytesOfAllWorkByPurpose) {
  update(0, 1);
  for (int64_t number = 1; number <= 3; ++number) update(1, number);
  for (const int64_t replica : {0, 1}) tell_tally(replica);
  const RunCounters counters = recorder_.counters();
  EXPECT_EQ(counters.update, 1);
  EXPECT_EQ(counters.bytes_activations, 4);
  EXPECT_EQ(counters.bytes_gradients, 4);
  EXPECT_EQ(counters.bytes_averaging, 4);
  EXPECT_EQ(counters.bytes_evaluation, 4);
}

TEST_F(RunRecorderTest, KeepsEvaluationsOfOwnWeightsApart) {
  const auto evaluate = [&](int64_t number, double loss, const ReplicaSet& replicas) {
    recorder_.evaluated({.worker = {}, .update = number, .loss = loss, .replicas = replicas});
  };
  const ReplicaSet both = ReplicaSet::first(2);
  evaluate(1, 3.5, ReplicaSet::of({0}));
  EXPECT_FALSE(recorder_.valid().mean);
  evaluate(2, 3.0, both);
  evaluate(2, 3.0, both);  // reported again
  evaluate(3, 2.5, ReplicaSet::of({1}));
  ASSERT_TRUE(recorder_.valid().mean && recorder_.valid().own);
  EXPECT_EQ(recorder_.valid().mean->loss, 3.0);
  EXPECT_EQ(recorder_.valid().mean->replicas, both);
  EXPECT_EQ(recorder_.valid().own->loss, 2.5);
  EXPECT_TRUE(recorder_.valid().own->own);
  recorder_.flush_log();
  const std::string log = *read_text(folder_ / "events.jsonl");
  const auto count = [&](std::string_view text) {
    int64_t found = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"event\":\"evaluated_own\""), 2) << log;
  EXPECT_EQ(count("\"valid_loss_own\":2.5,\"replicas\":\"1\""), 1) << log;
  EXPECT_EQ(count("\"event\":\"evaluated\""), 1) << log;
}

// A shard of one of the two replicas, written as its process would.
class RunRecorderSaves : public RunRecorderTest {
 protected:
  RunRecorderSaves() {
    observer_.saved = [this](const Path& path) { saved_.push_back(path.filename().string()); };
    observer_.warned = [this](const std::string& warning) { warnings_.push_back(warning); };
    EXPECT_TRUE(write_atomically(held_.at("events.jsonl"), "").ok());
  }
  void save(int64_t replica, int64_t number) {
    const ReplicaState state = tiny_run(2).state.replicas[static_cast<size_t>(replica)];
    StageState stage = {.worker = {{replica}, {0}}, .update = number, .checkpoint = number};
    stage.weights = state.weights;
    stage.optimizer = state.optimizer;
    const auto message = stored_message(stage, shards_.store(stage));
    recorder_.saved(std::get<ShardSaved>(*message.report));
  }
  bool do_chore() {
    const std::optional<Recorder::Chore> chore = recorder_.take_chore();
    if (chore) (*chore)()();
    return chore.has_value();
  }
  Result<SavedRun> load(int64_t number) const {
    return load_run(folder_ / fmt::format("run/checkpoints/update-{:08}", number), true);
  }

  ShardFolder shards_{held_, observer_};
  std::vector<std::string> saved_;
  std::vector<std::string> warnings_;
};

TEST_F(RunRecorderSaves, ACheckpointCountsOnceAndGetsItsOtherReplicasLater) {
  for (const int64_t replica : {0, 1}) update(replica, 1);
  EXPECT_FALSE(do_chore());
  save(1, 1);
  EXPECT_TRUE(do_chore());
  EXPECT_EQ(saved_, std::vector<std::string>{"update-00000001"});
  EXPECT_EQ(load(1)->cloned, std::vector<int64_t>{0});
  const auto alone = recorder_.weights_hash();
  save(0, 1);
  EXPECT_TRUE(do_chore());
  EXPECT_EQ(saved_.size(), 1U) << "it counted before";
  EXPECT_TRUE(load(1)->cloned.empty());
  EXPECT_NE(recorder_.weights_hash(), alone) << "the mean of both";
  EXPECT_FALSE(do_chore());
}

// Its shards are on disk some updates later.
TEST_F(RunRecorderSaves, TheCountersAreThoseOfItsUpdate) {
  for (int64_t number = 1; number <= 3; ++number) {
    for (const int64_t replica : {0, 1}) update(replica, number);
  }
  for (const int64_t replica : {0, 1}) save(replica, 2);
  EXPECT_TRUE(do_chore());
  const auto loaded = load(2);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->counters.update, 2);
  EXPECT_EQ(loaded->counters.recent_losses.size(), 2U);
}

TEST_F(RunRecorderSaves, AManifestThatCannotBeWrittenIsTriedAgain) {
  for (const int64_t replica : {0, 1}) update(replica, 1);
  for (const int64_t replica : {0, 1}) save(replica, 1);
  {
    const FileSizeLimit full(100);
    EXPECT_TRUE(do_chore());
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0].find("update 1 is not saved: "), 0U) << warnings_[0];
  EXPECT_TRUE(saved_.empty());
  EXPECT_FALSE(do_chore()) << "it has just been tried";
  EXPECT_TRUE(recorder_.save_rest().ok());
  EXPECT_EQ(saved_.size(), 1U);
  EXPECT_TRUE(load(1).ok());
}

TEST_F(RunRecorderSaves, AStateThatWasGivenUpIsRemembered) {
  const ShardSaved waits = {.worker = {{0}, {0}}, .update = 4, .error = "no room", .again = true};
  for (int i = 0; i < 3; ++i) recorder_.saved(waits);
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_FALSE(recorder_.lost_state());
  ShardSaved lost = waits;
  lost.again = false;
  recorder_.saved(lost);
  ASSERT_TRUE(recorder_.lost_state());
  EXPECT_EQ(recorder_.lost_state()->message, "no room");
}

// Happens after replicas stopped at different updates: the updates in between are not repeated.
TEST_F(RunRecorderTest, CountsUpdatesThatOneReplicaMadeAlone) {
  for (int64_t number = 1; number <= 3; ++number) update(0, number);
  update(1, 3);
  EXPECT_EQ(recorder_.counters().update, 3);
  EXPECT_EQ(recorder_.counters().bytes_activations, 4);
}

// The coordinator before it had heard of the last updates, and not written them.
TEST_F(RunRecorderTest, OneThatTakesOverCountsWhatAllHaveMade) {
  recorder_.take_over(/*newest_table=*/3, /*tick=*/50);
  EXPECT_EQ(recorder_.newest_table(), 3);
  EXPECT_EQ(recorder_.tick(), 51) << "the log goes on";
  update(0, 7);
  update(1, 7);
  EXPECT_EQ(recorder_.counters().update, 7);
  recorder_.finished({{0}, {0}}, {.updates = 9});
  EXPECT_EQ(recorder_.counters().update, 7);
  recorder_.finished({{1}, {0}}, {.updates = 8});
  EXPECT_EQ(recorder_.counters().update, 8);
  const Membership table = Membership(2).without({1}, 3);
  recorder_.members(table);
  recorder_.flush_log();
  const std::string log = *read_text(folder_ / "events.jsonl");
  EXPECT_EQ(log.find("\"event\":\"members\""), log.npos) << "this one was logged before";
  EXPECT_NE(log.find("\"event\":\"taken_over\""), log.npos);
  recorder_.saved({.worker = {{0}, {0}}, .update = 7, .checkpoint = 1, .file = "gone"});
  EXPECT_FALSE(recorder_.take_chore()) << "a shard that is not there any more";
}

// A place that was filled again before it took over is not filled again for it.
TEST_F(RunRecorderTest, OneThatTakesOverCountsNoBytesTwice) {
  recorder_.take_over(/*newest_table=*/3, /*tick=*/50);
  update(0, 7);
  tell_tally(0);
  const int64_t sent = recorder_.counters().bytes_activations;
  ASSERT_GT(sent, 0);
  const WorkerId worker = {.replica = {0}, .stage = {0}};
  recorder_.members(
      Membership(2).without({0}, 2).with({0}, {.epoch = 3, .update = 5}, {{worker, 1}}));
  tell_tally(0);
  EXPECT_EQ(recorder_.counters().bytes_activations, sent);
  recorder_.members(
      Membership(2).without({0}, 4).with({0}, {.epoch = 5, .update = 8}, {{worker, 2}}));
  EXPECT_EQ(recorder_.counters().bytes_activations, sent) << "what the one before has sent";
  tell_tally(0);
  EXPECT_EQ(recorder_.counters().bytes_activations, 2 * sent);
  recorder_.flush_log();
  EXPECT_NE(read_text(folder_ / "events.jsonl")->find("\"event\":\"replaced\""), std::string::npos);
}

TEST_F(RunRecorderTest, OneThatTakesOverGoesOnUnlessItsOwnUserStopsIt) {
  EXPECT_FALSE(recorder_.goes_on_after_this());
  recorder_.take_over(/*newest_table=*/0, /*tick=*/0);
  EXPECT_TRUE(recorder_.goes_on_after_this()) << "nobody here has asked for an end";
  recorder_.regroups(false);
  EXPECT_FALSE(recorder_.goes_on_after_this());
}

TEST_F(RunRecorderTest, LogsTheWorkOfSomeUpdatesAndTheBytesOfAll) {
  for (int64_t number = 1; number <= 150; ++number) {
    for (const int64_t replica : {0, 1}) {
      update(replica, number);
      work(WorkKind::kUpdate, replica, number);
    }
  }
  recorder_.flush_log();
  std::map<std::string, int64_t> counts;
  int64_t sent = 0;
  const auto history = read_events(folder_ / "events.jsonl");
  ASSERT_TRUE(history.ok());
  for (const Event& event : history->events) {
    ++counts[event.text("kind").value_or(event.kind())];
    if (event.kind() == "update") sent = *event.integer("bytes_activations");
  }
  EXPECT_EQ(counts["forward"], 2 * (50 + 10));
  EXPECT_EQ(counts["backward"], 2 * (50 + 10));
  // The stretch begins with the update before it; another 150 lines are about the whole model.
  EXPECT_EQ(counts["update"], 2 * (50 + 10 + 1) + 150);
  EXPECT_EQ(counts["contribute"], 2 * 2 * 150);
  EXPECT_EQ(sent, 2 * 150);
}

TEST_F(RunRecorderTest, WarnsOnceAndLogsItIfMostMeansHaveOneContributor) {
  std::vector<std::string> warnings;
  observer_.warned = [&](const std::string& warning) { warnings.push_back(warning); };
  for (int64_t number = 1; number <= 80; ++number) {
    for (const int64_t replica : {0, 1}) {
      TallyKeeper& keeper = keepers_[static_cast<size_t>(replica)];
      WorkRecord part;
      part.work = {.kind = WorkKind::kContribute, .index = number, .update = number};
      keeper.worked(part);
      WorkRecord mean;
      mean.work = {.kind = WorkKind::kReduce, .index = number, .update = number};
      mean.work.replicas = ReplicaSet::of({replica});
      keeper.worked(mean);
      update(replica, number);
    }
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].find("50 of 50 means have one contributor"), 0U) << warnings[0];
  recorder_.flush_log();
  const auto history = read_events(folder_ / "events.jsonl");
  ASSERT_TRUE(history.ok());
  std::vector<std::string> logged;
  for (const Event& event : history->events) {
    if (event.kind() == "alone") logged.push_back(event.text("contributors").value_or(""));
  }
  EXPECT_EQ(logged, std::vector<std::string>{"50 0"});
}

}  // namespace
}  // namespace leeway
