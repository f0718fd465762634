#include "report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/report_csv.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ReportPage, RunNamesCannotInjectMarkup) {
  RunData run;
  run.name = "</script><script>alert(1)</script>{{report.js}}";
  const std::string page = report_page({run}, {.title = "<b>\"bold\"</b>"});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt;"));
  EXPECT_THAT(page, HasSubstr("{{report.js}}"));  // data stays data
}

TEST(ReportPage, DataRoundTrips) {
  RunData run;
  run.name = "a";
  run.headline.valid_loss = 2.4343373775482178;
  run.curves[0].add({.at = {.update = 3, .tokens = 30}, .value = 0.25});
  PageOptions options{.title = "t"};
  options.comparison = {{"title", "c"}, {"columns", {"x"}}, {"rows", {{1.5}}}};
  const auto data = page_data({run}, options);
  EXPECT_EQ(data["runs"][0]["headline"]["valid_loss"], 2.4343373775482178);
  EXPECT_EQ(data["runs"][0]["headline"]["busy"], nullptr);
  EXPECT_EQ(data["runs"][0]["curves"]["train_loss"]["points"][0].dump(), "[3,30,0.0,0,0,0.25]");
  EXPECT_EQ(data["comparison"]["title"], "c");
}

TEST(ReportPage, ManyRunsGetFewerPointsEach) {
  EXPECT_EQ(limits_for(1).points_max, 2000u);
  EXPECT_EQ(limits_for(40).points_max, 200u);
  EXPECT_GE(limits_for(1000).points_max, 100u);
}

TEST(ReportCsv, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_cell("plain"), "plain");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"a\""), "\"say \"\"a\"\"\"");
}

TEST(ReportCsv, HasARowPerRunAndKey) {
  std::vector<RunData> runs(2);
  runs[0].name = "a";
  runs[0].config = {{"run.seed", "1"}};
  runs[1].name = "b";
  runs[1].config = {{"run.seed", "2"}, {"mesh.stages", "4"}};
  std::map<std::string, std::string> files;
  for (const auto& [name, text] : report_csv(runs)) files[name] = text;
  EXPECT_EQ(files["configuration.csv"], "key,a,b\nrun.seed,1,2\nmesh.stages,,4\n");
  EXPECT_THAT(files["traffic.csv"], HasSubstr("a,averaging,0\n"));
}

}  // namespace
}  // namespace leeway
