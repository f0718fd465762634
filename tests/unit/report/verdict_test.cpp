#include "report/verdict.h"

#include <gtest/gtest.h>

#include "report/validation_groups.h"

namespace leeway {
namespace {

RunData run_of(const char* name, double loss, int64_t averaging, double busy) {
  RunData run;
  run.name = name;
  run.headline.tokens = 1000;
  run.headline.valid_loss = loss;
  run.headline.bytes[static_cast<size_t>(Purpose::kAveraging)] = averaging;
  run.headline.bytes_allreduce = 100'000'000;
  run.headline.busy = busy;
  run.headline.tokens_per_second = 1000;
  return run;
}

void evaluated(RunData& run, double seconds, double loss) {
  run.curves[static_cast<size_t>(Curve::kValidLoss)].add({{.seconds = seconds}, loss});
}

TEST(Verdict, SaysLossSpeedBytesAndBusyShare) {
  RunData ours = run_of("ours", 1.212, 2'155'700'000, 0.81);
  RunData synchronous = run_of("synchronous", 1.2, 100'000'000, 0.37);
  ours.headline.bytes_allreduce = 43'114'000'000;
  synchronous.headline.tokens_per_second = 1250.4;
  const std::vector<std::string> lines = verdict(ours, synchronous);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "loss   1.2120 against 1.2000 of synchronous: +1.0 %, after the same tokens");
  EXPECT_EQ(lines[1],
            "speed  1,000 tokens/s against 1,250 of synchronous: 20 % slower (0.80 times)");
  EXPECT_EQ(lines[2], "bytes  2.2 GB between replicas, 5.0 % of an all-reduce's 43.1 GB");
  EXPECT_EQ(lines[3], "busy   81 % of the time; 37 % in synchronous");
  EXPECT_EQ(verdict(synchronous, ours)[1],
            "speed  1,250 tokens/s against 1,000 of ours: 25 % faster (1.25 times)");
}

TEST(Verdict, SaysHowLongBothTookToALossThatBothReached) {
  RunData ours = run_of("ours", 1.0, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.8);
  evaluated(ours, 30, 1.5);
  evaluated(ours, 60, 1.2);
  evaluated(ours, 90, 1.0);
  evaluated(other, 24, 1.3);
  evaluated(other, 48, 1.2);
  EXPECT_EQ(verdict(ours, other)[2],
            "time   to loss 1.2000: 1 min 0 s against 48 s of other: 20 % slower (0.80 times)");
  other.validation.text_hash = "a";
  ours.validation.text_hash = "b";
  EXPECT_EQ(verdict(ours, other).size(), 4U) << "a loss on another text cannot be reached";
}

TEST(Verdict, SaysHowLongBothTookToTheSameUpdate) {
  RunData ours = run_of("ours", 1.0, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.8);
  const auto updated = [](RunData& run, int64_t update, double seconds) {
    const Standing at = {.update = update, .seconds = seconds};
    run.curves[static_cast<size_t>(Curve::kTrainLoss)].add({at, 2.0});
  };
  updated(ours, 100, 40);
  updated(other, 90, 90);
  EXPECT_EQ(verdict(ours, other).size(), 4U) << "one has made more updates";
  updated(other, 100, 100);
  EXPECT_EQ(verdict(ours, other)[2],
            "time   to update 100: 40 s against 1 min 40 s of other: 150 % faster (2.50 times)");
}

TEST(Verdict, SaysHowManyTimesFewerBytesWereSent) {
  const RunData ours = run_of("ours", 1.0, 5'000'000, 0.8);
  const RunData other = run_of("other", 1.0, 100'000'000, 0.8);
  EXPECT_EQ(verdict(ours, other)[2],
            "bytes  5.0 MB between replicas, 5.0 % of an all-reduce's 100.0 MB; 20.0 times fewer "
            "than the 100.0 MB of other");
  EXPECT_EQ(verdict(other, ours)[2],
            "bytes  100.0 MB between replicas, 100.0 % of an all-reduce's 100.0 MB");
}

TEST(Verdict, ComparesLossesIfAReplicaWasAwayForAWhile) {
  RunData ours = run_of("ours", 1.212, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.8);
  ours.headline.tokens = 950;
  EXPECT_EQ(verdict(ours, other)[0],
            "loss   1.2120 against 1.2000 of other: +1.0 %, after 950 and 1,000 tokens");
  ours.headline.tokens = 899;
  EXPECT_EQ(verdict(ours, other)[0],
            "loss   1.2120 against 1.2000 of other: not comparable, after 899 and 1,000 tokens");
}

TEST(Verdict, SaysWhatIsNotComparable) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.8);
  ours.headline.tokens = 500;
  EXPECT_EQ(verdict(ours, other)[0],
            "loss   1.2000 against 1.2000 of other: not comparable, after 500 and 1,000 tokens");
  other.headline.valid_loss = {};
  EXPECT_EQ(verdict(ours, other)[0], "loss   other has no validation loss to compare");
  ours.cores = {.cores = 2, .threads = 2};
  other.cores = {.cores = 8, .threads = 2};
  EXPECT_EQ(verdict(ours, other)[1],
            "speed  1,000 tokens/s against 1,000 of other: equally fast, but on 2 and 8 cores");
  other.headline.tokens_per_second = 0;
  EXPECT_EQ(verdict(ours, other)[1], "speed  of other is unknown");
  ours.headline.bytes_allreduce = {};
  EXPECT_EQ(verdict(ours, other)[2], "bytes  one replica: nothing to average");
  other.headline.busy = {};
  EXPECT_EQ(verdict(ours, other)[3], "busy   80 % of the time; unknown in other");
}

TEST(Verdict, SaysThatWaitingForACoreCounts) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.5);
  ours.cores = {.cores = 2, .threads = 8};
  other.cores = {.cores = 2, .threads = 2};
  EXPECT_EQ(verdict(ours, other)[3],
            "busy   80 % of the time, waiting for a core included (8 threads on 2 cores); 50 % of "
            "the time in other: these shares are not comparable");
  other.cores = ours.cores;
  EXPECT_EQ(verdict(ours, other)[3],
            "busy   80 % of the time, waiting for a core included (8 threads on 2 cores); 50 % in "
            "other");
}

TEST(Verdict, DoesNotCompareLossesOfDifferentValidation) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.3, 0, 0.8);
  ours.validation = {.text_hash = "a1", .tokenizer_hash = "b1", .windows = 4};
  other.validation = ours.validation;
  ours.config = other.config = {{"model.context", "32"}};
  const std::string compared = verdict(ours, other)[0];
  EXPECT_EQ(compared, "loss   1.2000 against 1.3000 of other: -7.7 %, after the same tokens");
  const auto said = [](const std::string& what) {
    return "loss   1.2000 against 1.3000 of other: not comparable, because validation had a "
           "different " +
           what;
  };
  other.validation.windows = 8;
  EXPECT_EQ(verdict(ours, other)[0], said("number of windows"));
  other.validation = {};  // older versions did not record it
  EXPECT_EQ(verdict(ours, other)[0], compared);
  other.validation = {.text_hash = "a2", .tokenizer_hash = "b2", .windows = 4};
  other.config = {{"model.context", "64"}};
  EXPECT_EQ(verdict(ours, other)[0], said("text, tokenizer, context"));
}

TEST(Verdict, DoesNotCompareDifferentClocks) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.7);
  other.config = {{"run.driver", "sim"}};
  EXPECT_EQ(verdict(ours, other)[1],
            "speed  1,000 tokens/s against 1,000 (simulated) of other: these clocks are not "
            "comparable");
  EXPECT_EQ(verdict(ours, other)[3],
            "busy   80 % of the time; 70 % of simulated time in other: these shares are not "
            "comparable");
  ours.config = other.config;
  EXPECT_EQ(verdict(ours, other)[3], "busy   80 % of simulated time; 70 % in other");
}

TEST(ValidationGroups, TellsRunsApartThatWereValidatedOnOtherText) {
  std::vector<RunData> runs = {run_of("a", 1.2, 0, 0.8), run_of("b", 1.3, 0, 0.8),
                               run_of("c", 1.4, 0, 0.8), run_of("d", 1.4, 0, 0.8)};
  for (RunData& run : runs) run.validation = {.text_hash = "1", .windows = 4};
  EXPECT_EQ(validation_groups(runs).note, "");
  EXPECT_EQ(validation_groups(runs).letters, std::vector<std::string>(4));
  runs[1].validation.text_hash = "2";
  runs[3].headline.valid_loss = {};
  const ValidationGroups groups = validation_groups(runs);
  EXPECT_EQ(groups.letters, (std::vector<std::string>{"A", "B", "A", ""}));
  EXPECT_EQ(groups.note,
            "the validation losses of a, c and of b are not comparable: validation had a different "
            "text");
}

}  // namespace
}  // namespace leeway
