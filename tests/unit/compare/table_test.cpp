#include "compare/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

ComparisonPlan plan_of(const std::string& toml) {
  auto parsed = parse_comparison("base.data.train = 'text.txt'\n" + toml, "folder/set.toml");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  auto plan = plan_comparison({*parsed, "folder/set.toml", {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

RunOutcome good(double loss) {
  return {.loss = loss,
          .why = "",
          .summary = Json{{"bytes_averaging", 5e6},
                          {"bytes_allreduce", 100e6},
                          {"bytes_activations", 1e6},
                          {"bytes_gradients", 2e6},
                          {"tokens_per_second", 12345.6},
                          {"stages", Json::array({{{"busy", 0.5}}, {{"busy", 1.0}}})}}};
}

RunOutcome bad(const std::string& why) { return {.loss = {}, .why = why}; }

ComparisonResults results_of(const ComparisonPlan& plan, const std::vector<RunOutcome>& outcomes) {
  return {plan, outcomes, comparison_rows(plan, outcomes), "leeway compare set.toml --out c"};
}

TEST(Rows, TheBestRateHasTheLowestMean) {
  const ComparisonPlan plan = plan_of("seeds = [1, 2]\nrates = [1, 2]\n[variants.a]\n[variants.b]");
  // seed by seed, rate by rate, variant by variant
  const std::vector<RunOutcome> outcomes = {good(2.0), good(1.8), good(1.0), good(1.9),
                                            good(2.2), good(1.6), good(3.4), good(1.7)};
  const auto rows = comparison_rows(plan, outcomes);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].best, 0u);  // 2.1 against 2.2, whose first seed was lower
  EXPECT_DOUBLE_EQ(rows[0].cells[0].mean, 2.1);
  EXPECT_NEAR(rows[0].cells[0].half_range, 0.1, 1e-12);
  EXPECT_EQ(rows[1].best, 0u);
  EXPECT_NEAR(*rows[1].difference_percent, 100 * (1.7 - 2.1) / 2.1, 1e-9);
  EXPECT_DOUBLE_EQ(rows[1].busy, 0.75);
  EXPECT_DOUBLE_EQ(rows[1].bytes_pipeline, 3e6);
}

// An indented line for every level of a file of 200 kB would be 20 GB.
TEST(Outcome, LeavesOutWhatNestsDeep) {
  const TemporaryFolder folder;
  const ComparisonPlan plan = plan_of("[variants.a]");
  const Path run = run_folder(folder.path(), plan.runs[0]);
  std::filesystem::create_directories(run);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  ASSERT_TRUE(write_atomically(run / "summary.json",
                               "{\"finished\": true, \"valid_loss\": 2.5, "
                               "\"rounds\": " +
                                   deep + "}")
                  .ok());
  const auto outcome = read_outcome(folder.path(), plan.runs[0], 0);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->loss, 2.5);
  EXPECT_LT(results_json(results_of(plan, {*outcome})).size(), 10'000u);
}

TEST(Rows, ARateWithAFailedSeedCannotWin) {
  const ComparisonPlan plan = plan_of("seeds = [1, 2]\nrates = [1, 2]\n[variants.a]");
  const auto rows = comparison_rows(plan, {good(2.0), good(0.5), good(2.0), bad("diverged")});
  EXPECT_EQ(rows[0].best, 0u);
  EXPECT_EQ(rows[0].cells[1].why, "diverged");
}

TEST(Table, SaysEverythingInOneRow) {
  const ComparisonPlan plan = plan_of("[variants.a]\n[variants.'b|c']");
  const std::vector<RunOutcome> outcomes = {good(2.0), good(2.1)};
  const std::string text = comparison_markdown(results_of(plan, outcomes));
  EXPECT_THAT(text, testing::StartsWith("# set\n\n| variant | loss   | against a |"));
  EXPECT_THAT(text, HasSubstr("| b\\|c    | 2.1000 | +5.00 %   | 5.0 MB        | 5.0 %         | "
                              "3.0 MB        | 75.0 % | 12,345   |\n"));
  EXPECT_THAT(
      text, HasSubstr("- Every run: 2,048,000 tokens in 1,000 updates, the same validation text.\n"
                      "- Seed 1.\n"));
  EXPECT_THAT(text, HasSubstr("leeway compare set.toml --out c"));
}

TEST(Table, SaysThatWorkersSharedCores) {
  const ComparisonPlan plan = plan_of("[variants.a]\n[variants.b]");
  std::vector<RunOutcome> outcomes = {good(2.0), good(2.1)};
  outcomes[0].summary["cores"] = outcomes[0].summary["threads"] = 2;
  EXPECT_THAT(comparison_markdown(results_of(plan, outcomes)), Not(HasSubstr("for a core")));
  outcomes[1].summary["cores"] = 2;
  outcomes[1].summary["threads"] = 8;
  EXPECT_THAT(comparison_markdown(results_of(plan, outcomes)),
              HasSubstr("- Busy shares include waiting for a core, up to 8 threads on 2 cores.\n"));
}

TEST(Table, ShowsTheTimeToALossIfAllSeedsReachIt) {
  const ComparisonPlan plan = plan_of(
      "seeds = [1, 2]\ntarget_loss = 1.5\n[variants.a]\n[variants.b]\n[variants.c]\n[variants.d]");
  std::vector<RunOutcome> outcomes(8, good(1.4));
  const std::optional<double> seconds[] = {300, 100, 50, {}, 500, 220, {}, {}};  // seed by seed
  for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i].seconds_to_target = seconds[i];
  const ComparisonResults results = results_of(plan, outcomes);
  const std::string text = comparison_markdown(results);
  EXPECT_THAT(text, HasSubstr("| to loss 1.5   |"));
  EXPECT_THAT(text, HasSubstr("| 400 s         |"));
  EXPECT_THAT(text, HasSubstr("| 160 s (2.50x) |"));
  EXPECT_THAT(text, HasSubstr("| 1 of 2 seeds  |"));
  EXPECT_THAT(text, HasSubstr("| not reached   |"));
  const Json json = Json::parse(results_json(results));
  EXPECT_EQ(json["target_loss"], 1.5);
  EXPECT_EQ(json["variants"][1]["seconds_to_target"], 160);
  EXPECT_TRUE(json["variants"][2]["seconds_to_target"].is_null());
  EXPECT_EQ(json["runs"][2]["seconds_to_target"], 50);
  EXPECT_TRUE(json["runs"][6]["seconds_to_target"].is_null());
  EXPECT_EQ(json["comparison"]["rows"][2].back(), "1 of 2 seeds");
}

TEST(Table, SimulatedAndMeasuredTimesAreNotDivided) {
  const ComparisonPlan plan =
      plan_of("target_loss = 1.5\n[variants.a]\n[variants.b]\n[variants.c]\nrun.driver = 'sim'");
  std::vector<RunOutcome> outcomes(3, good(1.4));
  for (RunOutcome& outcome : outcomes) outcome.seconds_to_target = 10;
  const std::string text = comparison_markdown(results_of(plan, outcomes));
  EXPECT_THAT(text, HasSubstr("| 10 s (1.00x) |"));
  EXPECT_EQ(text.find("x) |"), text.rfind("x) |"));  // only of b
  EXPECT_THAT(text, HasSubstr("Busy shares, tokens/s and times to the loss are simulated for some "
                              "variants and measured for others"));
}

TEST(Table, AFailedVariantIsARowWithTheReason) {
  const ComparisonPlan plan = plan_of("baseline = 'b'\n[variants.a]\n[variants.b]");
  const std::vector<RunOutcome> outcomes = {good(2.0), bad("diverged at update 7")};
  const ComparisonResults results = results_of(plan, outcomes);
  EXPECT_THAT(comparison_markdown(results), HasSubstr("failed: diverged at update 7"));
  EXPECT_FALSE(results.rows[0].difference_percent);  // there is nothing to compare it with
  const Json json = Json::parse(results_json(results));
  EXPECT_EQ(json["variants"][1]["failed"], "diverged at update 7");
  EXPECT_TRUE(json["variants"][1]["loss"].is_null());
  EXPECT_EQ(json["comparison"]["rows"][0][1], (Json{{"text", "2.0000"}, {"value", 2.0}}));
  EXPECT_EQ(json["comparison"]["rows"][1][1], (Json{{"failed", "diverged at update 7"}}));
}

TEST(Table, UnfairIsShownEverywhere) {
  const ComparisonPlan plan = plan_of("fair = false\n[variants.a]\n[variants.b]\nrun.updates = 7");
  const std::vector<RunOutcome> outcomes = {good(2.0), good(2.0)};
  const ComparisonResults results = results_of(plan, outcomes);
  EXPECT_THAT(comparison_markdown(results), HasSubstr("**Not a fair comparison (fair = false): "));
  EXPECT_THAT(comparison_markdown(results), HasSubstr("updates of \"a\" are 1000"));
  const Json json = Json::parse(results_json(results));
  EXPECT_EQ(json["fair"], false);
  EXPECT_THAT(json["comparison"]["fair"].get<std::string>(), HasSubstr("Not a fair"));
  EXPECT_EQ(json["unfair"].size(), 2u);
}

TEST(Table, ABestRateAtTheEdgeIsNoted) {
  const ComparisonPlan plan = plan_of("rates = [0.5, 1, 2]\n[variants.a]\n[variants.b]");
  const std::vector<RunOutcome> outcomes = {good(3), good(3), good(2), good(2), good(2.5), good(1)};
  const std::string text = comparison_markdown(results_of(plan, outcomes));
  EXPECT_THAT(text, HasSubstr("2.0000 (x1)"));
  EXPECT_THAT(text, HasSubstr("at an edge of the grid for b:"));
}

TEST(Data, ChangedTextIsNoticed) {
  const ComparisonPlan plan = plan_of("[variants.a]\n[variants.b]\nmodel.width = 64");
  std::vector<RunOutcome> outcomes = {good(1), good(2)};
  outcomes[0].data_hash = outcomes[1].data_hash = "aa";
  EXPECT_TRUE(check_same_data(plan, outcomes).ok());
  outcomes[1].data_hash = "bb";
  const Status changed = check_same_data(plan, outcomes);
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr("the data changed between runs a-x1-seed1-"));
}

}  // namespace
}  // namespace leeway
