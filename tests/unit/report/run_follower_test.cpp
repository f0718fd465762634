#include "report/run_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"
#include "report_testing.h"

namespace leeway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string update_line(int64_t update, double loss) {
  return Event("update")
             .add("update", update)
             .add("loss", loss)
             .add("tokens", 100 * update)
             .add("seconds", static_cast<double>(update))
             .line() +
         "\n";
}

class RunFolder {
 public:
  explicit RunFolder(const std::string& config = "[mesh]\nreplicas = 2\n") {
    EXPECT_TRUE(write_atomically(folder_ / "config.toml", config).ok());
  }
  void append(const std::string& text) const {
    std::ofstream(folder_ / "events.jsonl", std::ios::app) << text;
  }
  void append(const Event& event) const { append(event.line() + "\n"); }
  void write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(write_atomically(folder_ / name, text).ok());
  }
  RunData read() const {
    auto run = read_run(folder_.path(), {});
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
    return run.ok() ? *run : RunData{};
  }
  const Path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::vector<double> losses(const RunData& run) {
  std::vector<double> values;
  for (const Point& point : run.curve(Curve::kTrainLoss).points()) values.push_back(point.value);
  return values;
}

TEST(RunFollower, ReadsWhatIsThereAndThenWhatIsAdded) {
  const RunFolder run;
  run.append(Event("started").add("version", LEEWAY_VERSION).add("parameters", 1000));
  run.append(update_line(1, 5) + update_line(2, 4) + "{\"event\":\"upd");
  auto follower = RunFollower::open(run.path(), {});
  ASSERT_TRUE(follower.ok());
  EXPECT_TRUE(*follower->poll());
  const RunData before = follower->data();
  EXPECT_THAT(losses(before), ElementsAre(5, 4));
  EXPECT_EQ(before.headline.bytes_allreduce, 2 * 4 * 1000 * 1 * 2);
  EXPECT_TRUE(before.cut);
  EXPECT_EQ(before.state, RunState::kUnfinished);
  EXPECT_FALSE(*follower->poll());
  run.append("ate\",\"update\":3,\"loss\":3.5,\"tokens\":300,\"seconds\":3}\n");
  run.append(Event("ended").add("update", 3).add("finished", true));
  EXPECT_TRUE(*follower->poll());
  const RunData after = follower->data();
  EXPECT_THAT(losses(after), ElementsAre(5, 4, 3.5));
  EXPECT_EQ(after.state, RunState::kFinished);
  EXPECT_EQ(after.headline.tokens_per_second, 100);
  EXPECT_TRUE(after.notes.empty()) << after.notes.front();
}

TEST(RunFollower, ADivergedRunIsOverUntilItIsResumed) {
  const RunFolder run;
  run.append(update_line(1, 5));
  run.append(Event("diverged").add("update", 1).add("stage", 0));
  const RunData data = run.read();
  EXPECT_EQ(state_word(data.state), "diverged");
  EXPECT_THAT(data.happened, ElementsAre("update 2: diverged"));
  EXPECT_THAT(data.notes, ElementsAre(HasSubstr("the run diverged")));
  run.append(Event("resumed").add("update", 1));
  EXPECT_EQ(state_word(run.read().state), "unfinished");
}

TEST(RunFollower, SpeedIsTheMeanOfTheLastTenUpdates) {
  const RunFolder run;
  for (int64_t update = 1; update <= 30; ++update) run.append(update_line(update, 5));
  for (const Point& point : run.read().curve(Curve::kTokensPerSecond).points()) {
    EXPECT_DOUBLE_EQ(point.value, 100) << point.at.update;
  }
}

std::vector<double> rates(const RunData& run) {
  std::vector<double> values;
  for (const Point& point : run.curve(Curve::kLearningRate).points()) values.push_back(point.value);
  return values;
}

std::string rated_line(int64_t update, double factor) {
  return Event("update")
             .add("update", update)
             .add("rate_factor", factor)
             .add("tokens", 100 * update)
             .add("seconds", 2.0 * static_cast<double>(update))
             .line() +
         "\n";
}

TEST(RunFollower, LearningRateFollowsScheduleAndChanges) {
  const RunFolder run("[optimizer]\nrate = 0.25\n");
  run.append(rated_line(1, 0.5) + rated_line(2, 1));
  EXPECT_THAT(rates(run.read()), ElementsAre(0.125, 0.25));
  run.append(Event("resumed").add("update", 2));
  run.append(
      Event("changed").add("update", 2).add("change", "optimizer.rate was 1 and is now 0.25"));
  run.append(rated_line(3, 0.5));
  EXPECT_THAT(rates(run.read()), ElementsAre(0.5, 1, 0.125)) << "the first session had another";
  EXPECT_EQ(run.read().headline.learning_rate, 0.125);
  const RunFolder unknown;
  unknown.append(rated_line(1, 0.5));
  EXPECT_THAT(rates(unknown.read()), ElementsAre());
}

TEST(RunFollower, KnowsProgressEpochsAndTimeLeft) {
  const RunFolder run("[run]\nupdates = 10\n");
  run.append(Event("started").add("train_tokens", 150).add("cores", 2).add("threads", 8));
  run.append(rated_line(1, 1));
  EXPECT_FALSE(run.read().headline.seconds_left) << "one update has no duration";
  run.append(rated_line(2, 1) + rated_line(3, 1));
  const RunData data = run.read();
  EXPECT_EQ(data.headline.updates_wanted, 10);
  EXPECT_EQ(data.headline.epochs, 2);
  EXPECT_EQ(data.headline.seconds_left, 7 * 2.0);
  EXPECT_TRUE(data.cores.shared());
  EXPECT_EQ(data.cores.text(), "8 threads on 2 cores");
  run.append(Event("resumed").add("update", 3).add("cores", 8).add("threads", 8));
  EXPECT_FALSE(run.read().cores.shared()) << "it moved to another machine";
  run.append(Event("ended").add("update", 3).add("finished", false));
  EXPECT_FALSE(run.read().headline.seconds_left);
}

TEST(RunFollower, SaysWhenAnUnfinishedRunLastWroteSomething) {
  const RunFolder run;
  run.append(update_line(1, 5) + "{\"event\":\"upd");
  const RunData data = run.read();
  ASSERT_TRUE(data.written_at.has_value());
  EXPECT_EQ(unfinished_note(data, *data.written_at + 130, std::nullopt),
            "the run has not ended: it was cut off, or goes on where its lock cannot be seen; last "
            "event 2 min 10 s ago; an incomplete line at the end of its events.jsonl is left out");
  EXPECT_THAT(unfinished_note(data, *data.written_at - 9, std::nullopt),
              HasSubstr("last event 0.0 s ago"));
}

TEST(RunFollower, AResumedSessionReplacesWhatItRepeats) {
  const RunFolder run;
  run.append(update_line(1, 5) + update_line(2, 4) + update_line(3, 9));
  run.append(event_of({.kind = WorkKind::kForward, .end = 5, .update = 3, .bytes = 7}));
  auto follower = RunFollower::open(run.path(), {});
  ASSERT_TRUE(follower.ok() && follower->poll().ok());
  EXPECT_EQ(follower->data().headline.bytes[0], 7);
  run.append(Event("resumed").add("update", 1));
  run.append(update_line(2, 3));
  ASSERT_TRUE(follower->poll().ok());
  const RunData data = follower->data();
  EXPECT_THAT(losses(data), ElementsAre(5, 3));
  EXPECT_EQ(data.headline.bytes[0], 0);
  EXPECT_THAT(data.happened, ElementsAre("resumed at update 1"));
  EXPECT_THAT(losses(run.read()), ElementsAre(5, 3));  // the same when read at once
}

TEST(RunFollower, TellsThatMostMeansHadOneContributor) {
  const RunFolder run;
  run.append(Event("alone").add("update", 30).add("contributors", "41 9"));
  EXPECT_THAT(
      run.read().happened,
      ElementsAre("update 30: most means had one contributor (means by contributors: 41 9)"));
}

TEST(RunFollower, ARestartedRunIsReadFromItsStart) {
  const RunFolder run;
  run.append(update_line(1, 5) + update_line(2, 4));
  auto follower = RunFollower::open(run.path(), {});
  ASSERT_TRUE(follower.ok() && follower->poll().ok());
  run.write("events.jsonl", update_line(1, 7));
  ASSERT_TRUE(follower->poll().ok());
  EXPECT_THAT(losses(follower->data()), ElementsAre(7));
}

TEST(RunFollower, CountsWorkersDelaysLagsAndBytes) {
  const RunFolder run;
  run.append(event_of({.kind = WorkKind::kForward, .begin = 0, .end = 10, .bytes = 100}));
  run.append(
      event_of({.kind = WorkKind::kBackward, .begin = 20, .end = 30, .delay = 2, .bytes = 50}));
  run.append(event_of({.kind = WorkKind::kUpdate, .begin = 35, .end = 40}));
  Event merge = event_of(
      {.kind = WorkKind::kMerge, .begin = 40, .end = 41, .delay = 3, .bytes = 9, .replicas = {0}});
  run.append(merge.add("drift", 3.0).add("correction", 4.0));
  run.append(event_of({.kind = WorkKind::kReduce, .begin = 41, .end = 41, .replicas = {0, 2}}));
  run.append(update_line(1, 5));
  const RunData data = run.read();
  ASSERT_EQ(data.workers.size(), 1u);
  EXPECT_DOUBLE_EQ(data.workers[0].busy.share().value(), 25.0 / 40);
  EXPECT_THAT(data.workers[0].delays.counts(), ElementsAre(Pair(2, 1)));
  EXPECT_THAT(data.lags.counts(), ElementsAre(Pair(3, 1)));
  EXPECT_THAT(data.contributors.counts(), ElementsAre(Pair(2, 1)));
  EXPECT_THAT(data.headline.bytes, ElementsAre(100, 50, 9, 0));
  EXPECT_EQ(data.curve(Curve::kDrift).points().front().value, 3.0);
  EXPECT_EQ(data.curve(Curve::kCorrection).points().front().value, 4.0);
  EXPECT_EQ(data.curve(Curve::kLag).points().front().at.bytes, 159);
  EXPECT_THAT(data.timeline, HasSubstr("<svg"));
}

TEST(RunFollower, AllReduceBytesCountTheUpdatesOfEachReplica) {
  const RunFolder run;
  run.append(Event("started").add("version", LEEWAY_VERSION).add("parameters", 1000));
  run.append(event_of({.kind = WorkKind::kUpdate, .end = 1, .update = 1}));
  for (int64_t update = 1; update <= 3; ++update) {
    run.append(
        event_of({.kind = WorkKind::kUpdate, .end = update, .update = update, .replica = 1}));
  }
  run.append(update_line(1, 5));
  EXPECT_EQ(run.read().headline.updates, 1);
  EXPECT_EQ(run.read().headline.bytes_allreduce, 2 * 4 * 1000 * 1 * (1 + 3) / 2);
}

TEST(RunFollower, TheSummaryCountsIfTheRunHasEnded) {
  const RunFolder run;
  const std::string summary =
      R"({"version":"0.0.1","updates":9,"valid_loss":1.25,"tokens_per_second":77,
          "bytes_averaging":5,"bytes_allreduce":100,"stages":[{"busy":0.5},{"busy":0.7}]})";
  run.write("summary.json", summary);
  run.append(update_line(1, 5));
  EXPECT_EQ(run.read().headline.updates, 1);  // the summary is from an earlier session
  run.append(Event("ended").add("update", 9).add("finished", false));
  const RunData data = run.read();
  EXPECT_EQ(data.state, RunState::kStopped);
  EXPECT_EQ(data.headline.valid_loss, 1.25);
  EXPECT_DOUBLE_EQ(data.headline.busy.value(), 0.6);
  EXPECT_DOUBLE_EQ(data.headline.traffic_share().value(), 0.05);
  EXPECT_THAT(data.notes, Contains(HasSubstr("made by version 0.0.1")));
  run.write("summary.json", "{");
  EXPECT_THAT(run.read().notes, Contains(HasSubstr("summary.json cannot be read")));
}

TEST(RunFollower, UnreadablePartsAreNoted) {
  const RunFolder run("not toml [");
  EXPECT_THAT(run.read().notes, Contains(HasSubstr("no events.jsonl")));
  EXPECT_THAT(run.read().notes, Contains(HasSubstr("configuration is left out")));
  run.append("{\"event\":\"work\",\"kind\":\"dance\",\"update\":1}\n");
  EXPECT_THAT(run.read().notes, Contains(HasSubstr("left out: 1 piece of work")));
  EXPECT_THAT(run.read().notes, Contains("no update was completed"));
  run.append("garbage\n");
  const auto bad = read_run(run.path(), {});
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("events.jsonl:2 is not an event"));
  const TemporaryFolder empty;
  EXPECT_EQ(read_run(empty.path(), {}).error().kind, ErrorKind::kUsage);
}

TEST(RunFollower, NamesAreShortIfUnique) {
  std::vector<RunData> runs(3);
  runs[0].folder = "out/a/";
  runs[1].folder = "x/b";
  runs[2].folder = "y/b";
  name_runs(runs);
  EXPECT_EQ(runs[0].name, "a");
  EXPECT_EQ(runs[1].name, "x/b");
  EXPECT_EQ(runs[2].name, "y/b");
}

// A run at `auto`: busy for 8 of 10 ns, with a pause of an hour in the part that is not logged.
TEST(RunFollower, AShareOfTimeCoversTheLoggedStretchesOnly) {
  const RunFolder run;
  run.append(Event("started").add("version", LEEWAY_VERSION).add("log", "auto"));
  constexpr int64_t kHour = 3'600'000'000'000;
  const auto update = [&](int64_t number, int64_t begin, bool whole) {
    if (whole) {
      run.append(event_of({.kind = WorkKind::kBackward,
                           .begin = begin,
                           .end = begin + 6,
                           .update = number,
                           .bytes = 5}));
    }
    run.append(event_of(
        {.kind = WorkKind::kUpdate, .begin = begin + 8, .end = begin + 10, .update = number}));
  };
  for (int64_t n = 1; n <= 50; ++n) update(n, (n - 1) * 10, true);
  run.append(event_of({.kind = WorkKind::kMerge,
                       .begin = kHour / 2,
                       .end = kHour / 2 + 1000,
                       .update = 90,
                       .replicas = {0}}));
  update(130, kHour, false);
  for (int64_t n = 131; n <= 140; ++n) update(n, kHour + (n - 130) * 10, true);
  run.append(Event("update")
                 .add("update", 200)
                 .add("tokens", 1)
                 .add("seconds", 1.0)
                 .add("bytes_activations", 7000)
                 .add("bytes_gradients", 900)
                 .add("bytes_averaging", 60)
                 .add("bytes_evaluation", 2));
  const RunData data = run.read();
  ASSERT_EQ(data.workers.size(), 1u);
  EXPECT_DOUBLE_EQ(data.workers[0].busy.busy_ns, 50 * 8 + 2 + 10 * 8);
  EXPECT_DOUBLE_EQ(data.workers[0].busy.whole_ns, 50 * 10 + 2 + 10 * 10);
  EXPECT_EQ(data.workers[0].pieces, 121) << "without the merge";
  EXPECT_THAT(data.headline.bytes, ElementsAre(7000, 900, 60, 2)) << "of all updates";
  EXPECT_THAT(data.notes, Contains(HasSubstr("the work of updates 1 to 50, 131 to 140 is logged")));
  EXPECT_EQ(data.timeline.find("rect class=\"merge"), data.timeline.npos) << "outside";
}

TEST(RunFollower, FollowsALogInParts) {
  const RunFolder run;
  auto follower = RunFollower::open(run.path(), {});
  ASSERT_TRUE(follower.ok());
  std::vector<double> expected;
  for (int64_t n = 1; n <= 30; ++n) {
    auto log = EventLog::open(run.path() / "events.jsonl", /*append=*/n > 1, /*part_bytes=*/300);
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(log->write(*Event::parse(update_line(n, static_cast<double>(n)))).ok());
    ASSERT_TRUE(log->flush().ok());
    expected.push_back(static_cast<double>(n));
    if (n % 4 != 0) continue;
    ASSERT_TRUE(follower->poll().ok());
    EXPECT_EQ(losses(follower->data()), expected);
  }
  EXPECT_EQ(losses(run.read()), expected);
}

}  // namespace
}  // namespace leeway
