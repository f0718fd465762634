#include "recipe/averaging_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kVocabulary = 257;

LoadedRecipe loaded_from(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"mesh.stages=2", "model.width=64"});
  auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? *loaded : LoadedRecipe{};
}

std::string report_of(std::vector<std::string> sets) {
  sets.insert(sets.begin(), "mesh.replicas=2");
  return averaging_report(loaded_from(std::move(sets)).recipe, kVocabulary);
}

std::vector<std::string> notes_of(std::vector<std::string> sets) {
  sets.insert(sets.begin(), "mesh.replicas=2");
  return averaging_notes(loaded_from(std::move(sets)), kVocabulary);
}

TEST(AveragingReport, IsEmptyForOneReplica) {
  EXPECT_EQ(averaging_report(loaded_from({}).recipe, kVocabulary), "");
}

TEST(AveragingReport, SaysWhatARoundIsAndWhatItSends) {
  // 246,464 parameters, 123,200 of them in stage 0: 4 layers of 53,376, twice 257 x 64, a norm.
  EXPECT_EQ(
      report_of({"averaging.merge=fixed_lag", "averaging.lag=10"}),
      "\n"
      "  averaging  sparse, another 1/20 of the weights every update, all of them in 20 "
      "rounds\n"
      "  merge      10 updates after sending, waits for all replicas, correction ema, outer rate "
      "1 and momentum 0.5\n"
      "  a round    6,160 to 6,163 values in f32; a worker sends 24.6 kB to 24.7 kB\n"
      "  in flight  0.5 rounds of each weight (lag * fraction / interval); ema is stable up to "
      "2.5\n"
      "  an update  98.6 kB over all replicas, 5.0 % of the 2.0 MB of an all-reduce of fp32 "
      "gradients\n"
      "  evaluation the mean of the replicas every 100 updates: 5.4 kB of copies per update "
      "on average\n");
}

TEST(AveragingReport, KnowsEveryMethodMergeAndWire) {
  EXPECT_THAT(report_of({}),
              HasSubstr("on arrival, leaving out replicas more than two rounds late"));
  EXPECT_THAT(report_of({"averaging.deadline_ms=250"}),
              HasSubstr("on arrival, leaving out replicas more than 250 ms late"));
  EXPECT_THAT(report_of({}), Not(HasSubstr("in flight")));  // the lag is unknown
  EXPECT_THAT(report_of({"averaging.merge=fixed_lag", "averaging.lag=1", "averaging.fraction=1"}),
              HasSubstr("in flight  1 round of each weight"));
  EXPECT_THAT(report_of({"averaging.wire=bf16"}), HasSubstr(", 2.5 % of the "));
  EXPECT_THAT(report_of({"averaging.fraction=1", "averaging.interval=3"}),
              HasSubstr("sparse, all weights every 3 updates\n"));
  EXPECT_THAT(report_of({"averaging.method=lowbit"}),
              HasSubstr("lowbit, all steps every update\n"));
  EXPECT_THAT(report_of({"averaging.method=lowbit"}),
              HasSubstr("evaluation the common model, which every replica has: nothing is sent"));
  EXPECT_THAT(report_of({"averaging.method=lowbit"}), HasSubstr("values in ternary"));
  EXPECT_THAT(report_of({"averaging.method=allreduce"}),
              HasSubstr("  merge      waits for the mean before it updates\n"));
  EXPECT_THAT(report_of({"averaging.method=allreduce"}), HasSubstr(", 100 % of the "));
  EXPECT_THAT(report_of({"averaging.method=weights"}),
              HasSubstr("  merge      waits for the mean right away\n"));
  EXPECT_THAT(report_of({"averaging.method=diloco"}), HasSubstr("outer rate 0.7 and momentum 0.9"));
  EXPECT_THAT(report_of({"averaging.method=none"}), HasSubstr("the replicas train apart"));
  EXPECT_THAT(report_of({"averaging.method=none"}), Not(HasSubstr("a round")));
}

TEST(AveragingNotes, AreEmptyForAGoodRecipe) {
  EXPECT_THAT(notes_of({}), IsEmpty());
  EXPECT_THAT(averaging_notes(loaded_from({}), kVocabulary), IsEmpty());
  EXPECT_THAT(notes_of({"averaging.method=none", "run.evaluate_every=1"}), IsEmpty());
}

TEST(AveragingNotes, WarnOfALagThatIsTooLong) {
  const std::vector<std::string> long_lag = {"averaging.merge=fixed_lag", "averaging.lag=10",
                                             "averaging.fraction=0.5"};
  ASSERT_EQ(notes_of(long_lag).size(), 1u);
  EXPECT_THAT(notes_of(long_lag)[0],
              HasSubstr("warning: a lag of 10 updates, averaging.fraction = 0.5 and "
                        "averaging.interval = 1 keep 5 rounds of each coordinate in flight"));
  EXPECT_THAT(notes_of(long_lag)[0], HasSubstr("choose averaging.interval = 2 or longer"));
  auto guarded = long_lag;
  guarded.push_back("averaging.guard=true");
  EXPECT_THAT(notes_of(guarded),
              ElementsAre("note: averaging.guard keeps rounds 2 updates apart, not 1: at a lag of "
                          "10 updates merging would otherwise be unstable"));
  EXPECT_THAT(report_of(guarded), HasSubstr("another 1/2 of the weights every 2 updates"));
  auto stable = long_lag;
  stable.push_back("averaging.interval=2");
  EXPECT_THAT(notes_of(stable), IsEmpty()) << "the warning's advice helps";
}

TEST(AveragingNotes, ReportEvaluationsThatSendMoreThanAveraging) {
  const auto notes = notes_of({"run.evaluate_every=5", "run.evaluate_mean_every=5"});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("note: copies for evaluation are 99.1 kB per update on average, "
                                  "more than the 98.6 kB of averaging: raise "
                                  "run.evaluate_mean_every (5), or leave it out, to send fewer"));
  EXPECT_THAT(averaging_notes(loaded_from({"mesh.replicas=2", "run.evaluate_every=5",
                                           "run.evaluate_mean_every=5"}),
                              {}),
              IsEmpty());
  EXPECT_THAT(notes_of({"run.evaluate_every=5"}), IsEmpty()) << "the mean is evaluated less often";
}

TEST(AveragingReport, SaysWhichEvaluationsAreOfTheMean) {
  EXPECT_THAT(report_of({}), HasSubstr("evaluation the mean of the replicas every 100 updates: "));
  EXPECT_THAT(report_of({"averaging.method=diloco"}),
              HasSubstr("a replica's own weights every 100 updates, the mean of all every 200 "
                        "updates: "));
  EXPECT_THAT(report_of({"averaging.method=none"}), HasSubstr("the mean of all at the end: "));
  EXPECT_THAT(report_of({"run.evaluate_every=0"}),
              HasSubstr("evaluation the mean of the replicas, at the end: "));
}

TEST(AveragingNotes, ReportThatOneReplicaAveragesNothing) {
  EXPECT_THAT(averaging_notes(loaded_from({"averaging.method=sparse"}), kVocabulary),
              ElementsAre("note: averaging.method = \"sparse\" (--set) does nothing with one "
                          "replica: raise mesh.replicas, or leave it out"));
}

}  // namespace
}  // namespace leeway
