#include "recipe/mesh_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "recipe/depth_report.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

LoadedRecipe loaded_from(const std::vector<std::string>& sets) {
  auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? *loaded : LoadedRecipe{};
}

std::string report_of(const std::vector<std::string>& sets) {
  const auto report = pipeline_report(loaded_from(sets), 257);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return report.ok() ? *report : "";
}

TEST(RecipeSummary, IsThreeLines) {
  EXPECT_EQ(recipe_summary(loaded_from({"mesh.stages=2"}).recipe),
            "  model  llama, 4 layers, width 128, 4 heads, context 128\n"
            "  run    1000 updates of 2048 tokens, muon, fp32 on cpu, seed 1\n"
            "  mesh   2 stages, 1 replica, 2 microbatches per update, async, look-ahead "
            "tentative\n");
}

TEST(RecipeSummary, CountsTheTokensOfAllReplicas) {
  const std::string summary = recipe_summary(loaded_from({"mesh.replicas=3"}).recipe);
  EXPECT_THAT(summary, HasSubstr("1000 updates of 6144 tokens"));
  EXPECT_THAT(summary, HasSubstr("  mesh   1 stage, 3 replicas, "));
}

TEST(PipelineReport, ShowsTheCutAndItsDelays) {
  const std::string report = report_of({"mesh.stages=4", "pipeline.lookahead=none"});
  EXPECT_THAT(report, HasSubstr("  size   869,760 parameters, a vocabulary of 257 tokens\n"));
  EXPECT_THAT(report,
              HasSubstr("  stage  delay mean  delay max  in flight  versions        layers  "
                        "parameters\n"
                        "      0        0.75          1          4         2  embedding, 0     "
                        "233,856\n"
                        "      1        0.50          1          3         2             1     "
                        "200,960\n"
                        "      2        0.25          1          2         2             2     "
                        "200,960\n"
                        "      3        0.00          0          1         1       3, head     "
                        "233,984\n"));
}

TEST(PipelineReport, SaysWhatStagesSend) {
  // 4 x 128 x 128 numbers in a microbatch of 4 sequences; 3 hops there and back, 4 microbatches.
  const std::string report = report_of({"mesh.stages=4", "pipeline.update_every=4"});
  EXPECT_THAT(report, HasSubstr("a stage sends 262.1 kB per microbatch each way, in fp32; all "
                                "together 6.3 MB an update\n"));
  EXPECT_THAT(report_of({"mesh.stages=4", "pipeline.update_every=4", "pipeline.wire=int8"}),
              HasSubstr("a stage sends 66.6 kB per microbatch each way, in int8; all together 1.6 "
                        "MB an update\n"));
  EXPECT_THAT(report_of({}), Not(HasSubstr("a stage sends")));
}

TEST(PipelineNotes, ReportThatOneStageSendsNothing) {
  EXPECT_THAT(report_of({"pipeline.wire=int8"}),
              HasSubstr("note: pipeline.wire = \"int8\" (--set) does nothing with one stage: raise "
                        "mesh.stages, or leave it out"));
  EXPECT_THAT(report_of({"pipeline.wire=int8", "mesh.stages=2"}), Not(HasSubstr("note:")));
}

TEST(PipelineReport, ShowsMemoryPerStageAndInTotal) {
  const std::string report = report_of({"mesh.stages=2"});
  EXPECT_THAT(report,
              HasSubstr("\n  memory  weights  gradients  optimizer  last update  averaging  "
                        "versions  activations  evaluation  transient"));
  EXPECT_THAT(report, HasSubstr("\n     all  "));
  EXPECT_THAT(report_of({}), Not(HasSubstr("     all  ")));  // one worker needs no total
  EXPECT_THAT(report_of({"mesh.replicas=2"}), HasSubstr("\n     all  "));
}

TEST(PipelineReport, ShowsWhatAGpuStashesOnTheHost) {
  const std::vector<std::string> sets = {"mesh.stages=4", "pipeline.update_every=1",
                                         "run.device=cuda"};
  EXPECT_THAT(report_of(sets), Not(HasSubstr("on the host")));
  EXPECT_THAT(report_of({sets[0], sets[1], sets[2], "pipeline.stash_on=host"}),
              HasSubstr("total  on the host\n"));
}

TEST(PipelineReport, EveryLineOfATableIsAsLongAsItsHeading) {
  const std::string report = report_of({"mesh.stages=4"});
  size_t width = 0;
  size_t rows = 0;
  const size_t end = report.find("\n\n", report.find("  memory"));
  for (size_t at = report.find("  memory"); at < end; at = report.find('\n', at) + 1) {
    const size_t length = report.find('\n', at) - at;
    if (width == 0) width = length;
    EXPECT_EQ(length, width);
    ++rows;
  }
  EXPECT_EQ(rows, 6u);
}

TEST(PipelineReport, ShowsTheEndsOfALongMesh) {
  const std::string report = report_of({"model.layers=64", "mesh.stages=64", "data.batch=64"});
  EXPECT_LT(std::count(report.begin(), report.end(), '\n'), 95);
  EXPECT_THAT(report, HasSubstr("\n     63  "));
  EXPECT_THAT(report, HasSubstr("\n    ...  "));
  EXPECT_THAT(report, Not(HasSubstr("\n     32  ")));
}

TEST(PipelineReport, WorksWithoutAVocabulary) {
  const auto report = pipeline_report(loaded_from({"mesh.stages=2"}), Error{"no such tokenizer"});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(*report,
            "\n  stage  delay mean  delay max  in flight\n"
            "      0        0.50          1          2\n"
            "      1        0.00          0          1\n"
            "\nparameters and memory are not shown: no such tokenizer\n");
}

TEST(PipelineReport, FailsIfMemoryIsTooSmall) {
  const auto report =
      pipeline_report(loaded_from({"data.batch=1000000", "model.context=100000"}), 257);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("this run needs about"));
}

// On these machines a stage takes 0.7 ms for a microbatch of 4 sequences.
std::vector<std::string> simulated(std::vector<std::string> more) {
  more.insert(more.begin(), {"mesh.stages=4", "run.driver=sim", "sim.flops=1e12"});
  return more;
}

TEST(DepthReport, IsSilentForOtherDriversAndOneStage) {
  EXPECT_EQ(depth_report(loaded_from({"mesh.stages=4", "sim.latency_ms=50"}), 257), "");
  EXPECT_EQ(depth_report(loaded_from({"run.driver=sim", "sim.latency_ms=50"}), 257), "");
}

TEST(DepthReport, HasNoWarningIfDepthSuffices) {
  const std::string report = depth_report(loaded_from(simulated({})), 257);
  EXPECT_THAT(report, HasSubstr("a message 0 ns each way; that stage is busy for 100 %"));
  EXPECT_THAT(report, Not(HasSubstr("warning")));
}

TEST(DepthReport, WarnsAndItsAdviceHelps) {
  const LoadedRecipe shallow = loaded_from(simulated({"sim.latency_ms=2"}));
  const std::string warning = depth_report(shallow, 257);
  EXPECT_THAT(warning, HasSubstr("\nwarning: pipeline.extra_per_hop = 0 is too low to keep the "
                                 "stages busy: set pipeline.extra_per_hop = "));
  EXPECT_THAT(warning, HasSubstr(" and data.batch = "));
  const auto number_after = [&](const std::string& words) {
    return std::to_string(std::stoi(warning.substr(warning.rfind(words) + words.size())));
  };
  const LoadedRecipe deep = loaded_from(
      simulated({"sim.latency_ms=2",
                 "pipeline.extra_per_hop=" + number_after("set pipeline.extra_per_hop = "),
                 "data.batch=" + number_after("data.batch = ")}));
  const std::string report = depth_report(deep, 257);
  EXPECT_THAT(report, HasSubstr("busy for 100 %"));
  EXPECT_THAT(report, Not(HasSubstr("warning")));
}

TEST(DepthReport, LeavesTheBatchAloneIfUpdateEveryWasGiven) {
  const std::string warning =
      depth_report(loaded_from(simulated({"sim.latency_ms=2", "pipeline.update_every=16"})), 257);
  EXPECT_THAT(warning, HasSubstr("set pipeline.extra_per_hop = "));
  EXPECT_THAT(warning, Not(HasSubstr("data.batch")));
}

TEST(DepthReport, SaysThatNoDepthHelpsAFullLink) {
  const std::string warning = depth_report(loaded_from(simulated({"sim.bandwidth_mbit=10"})), 257);
  EXPECT_THAT(warning, HasSubstr("warning: a message occupies its link for "));
  EXPECT_THAT(warning, HasSubstr("so more depth does not help: raise sim.bandwidth_mbit (10)"));
  EXPECT_THAT(warning, Not(HasSubstr("extra_per_hop")));
}

TEST(DepthReport, DoesNotWarnAboutSynchronousSchedules) {
  const std::string report =
      depth_report(loaded_from(simulated({"pipeline.schedule=gpipe", "data.batch=32",
                                          "pipeline.update_every=8", "model.layers=16"})),
                   257);
  EXPECT_THAT(report, HasSubstr("busy for 7"));  // 8 / (8 + 3) = 72 % with equal stages
  EXPECT_THAT(report, Not(HasSubstr("warning")));
}

TEST(DepthReport, MakesSenseOfWhatTakesForEver) {
  for (const std::string slow :
       {"sim.flops=1e-5", "sim.speeds=[1, 1, 1, 1e-12]", "sim.bandwidth_mbit=1e-12"}) {
    const auto report = pipeline_report(loaded_from(simulated({"sim.flops=1e9", slow})), 257);
    ASSERT_TRUE(report.ok()) << slow;
    EXPECT_THAT(*report, HasSubstr("9.223e+09 s")) << slow;
  }
}

TEST(SimulatedTimes, TakeLinksAndSpeedsFromTheRecipe) {
  const Recipe recipe = loaded_from(simulated({"sim.latency_ms=2", "sim.jitter_ms=1",
                                               "sim.bandwidth_mbit=8", "sim.speeds=[1, 1, 2, 1]"}))
                            .recipe;
  const PipelineTimes times = simulated_times(recipe, 257);
  EXPECT_EQ(times.hop.latency.count, 3'000'000);
  // 4 sequences of 128 tokens of 128 values of 4 bytes and a header, at a byte per microsecond.
  EXPECT_EQ(times.hop.transfer.count, (4 * 128 * 128 * 4 + 64) * 1000);
  EXPECT_NEAR(static_cast<double>(times.stages[1].forward.count),
              2.0 * static_cast<double>(times.stages[2].forward.count), 2);
}

}  // namespace
}  // namespace leeway
