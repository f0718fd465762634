#include "report/verdict.h"

#include <gtest/gtest.h>

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
  return run;
}

TEST(Verdict, SaysLossBytesAndBusyShare) {
  const RunData ours = run_of("ours", 1.212, 5'000'000, 0.81);
  const RunData synchronous = run_of("synchronous", 1.2, 100'000'000, 0.37);
  const std::vector<std::string> lines = verdict(ours, synchronous);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "loss   1.2120 against 1.2000 of synchronous: +1.0 %, after the same tokens");
  EXPECT_EQ(lines[1], "bytes  5.0 MB of averaging, 5.0 % of an all-reduce's 100.0 MB");
  EXPECT_EQ(lines[2], "busy   81 % of the time, 37 % in synchronous");
}

TEST(Verdict, SaysWhatIsNotComparable) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.8);
  ours.headline.tokens = 500;
  EXPECT_EQ(verdict(ours, other)[0],
            "loss   1.2000 against 1.2000 of other: the same, after 500 and 1000 tokens, so not "
            "comparable");
  other.headline.valid_loss = {};
  EXPECT_EQ(verdict(ours, other)[0], "loss   other has no validation loss to compare");
  ours.headline.bytes_allreduce = {};
  EXPECT_EQ(verdict(ours, other)[1], "bytes  one replica: nothing to average");
  other.headline.busy = {};
  EXPECT_EQ(verdict(ours, other)[2], "busy   80 % of the time, unknown in other");
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

TEST(Verdict, DoesNotCompareSharesOfDifferentClocks) {
  RunData ours = run_of("ours", 1.2, 0, 0.8);
  RunData other = run_of("other", 1.2, 0, 0.7);
  other.config = {{"run.driver", "sim"}};
  EXPECT_EQ(verdict(ours, other)[2],
            "busy   80 % of the time, 70 % of simulated time in other: these clocks are not "
            "comparable");
  ours.config = other.config;
  EXPECT_EQ(verdict(ours, other)[2], "busy   80 % of simulated time, 70 % in other");
}

}  // namespace
}  // namespace leeway
