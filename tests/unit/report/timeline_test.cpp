// The contents of the SVG; tests/e2e/test_timeline.py parses it as XML.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "report/timeline_svg.h"
#include "report_testing.h"

namespace leeway {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Drawn {
  WorkHistory history;
  Drawing drawing;
};

std::unique_ptr<Drawn> drawn(const std::vector<Piece>& pieces, const LayoutLimits& limits = {}) {
  auto made = std::make_unique<Drawn>();  // the drawing points into the history
  made->history = history_of(pieces);
  made->drawing = lay_out(made->history, {{"all <of> it", made->history.span}}, limits);
  return made;
}

TEST(TimelineSvg, HasABoxPerPieceAtItsPlace) {
  const auto made = drawn(two_stages(), {.pixels = 1112});
  const std::string svg = timeline_svg(made->drawing, "run", SvgUse::kPage);
  EXPECT_EQ(count(svg, "<rect class=\"forward\""), 4u);
  EXPECT_EQ(count(svg, "<rect class=\"backward\""), 4u);
  EXPECT_EQ(count(svg, "<rect class=\"update\""), 2u);
  // The backward of stage 0 from 40 to 60 of 95 ns, in 1112 pixels.
  EXPECT_DOUBLE_EQ(timeline_pixels(made->history), 1112);
  EXPECT_THAT(svg, HasSubstr("<rect class=\"backward\" x=\"468.211\" width=\"234.105\""));
  EXPECT_THAT(svg, HasSubstr("data-w=\"0 1 0 0 0 40 20\""));
  EXPECT_THAT(svg, HasSubstr(">stage 1</text>"));
  EXPECT_THAT(svg, HasSubstr("all &lt;of&gt; it (0 s to 95 ns)"));
}

TEST(TimelineSvg, AFileHasTitlesWhereAPageHasTooltips) {
  const auto made = drawn({{.kind = WorkKind::kEvaluate, .begin = 0, .end = 2000, .microbatch = 7},
                           {.kind = WorkKind::kSave, .begin = 3000, .end = 4000, .update = 5}});
  const std::string svg = timeline_svg(made->drawing, "a & b", SvgUse::kFile);
  EXPECT_THAT(svg, HasSubstr("<title>evaluate, batch 7, update 1, version 0, delay 0, 2.00 µs, "
                             "0 bytes</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>save, update 5,"));
  EXPECT_THAT(svg, HasSubstr(">a &amp; b</text>"));
  EXPECT_THAT(svg, HasSubstr(std::string(kHowToRead)));
  EXPECT_THAT(svg, Not(HasSubstr("data-w=")));
}

TEST(TimelineSvg, SeveralPiecesAreAsTallAsTheirBusyShare) {
  const auto made = drawn({{.begin = 0, .end = 1}, {.begin = 3, .end = 4}, {.begin = 8, .end = 99}},
                          {.pixels = 10, .pixels_min = 1});
  const std::string svg = timeline_svg(made->drawing, "run", SvgUse::kPage);
  EXPECT_THAT(svg, HasSubstr("height=\"11\" y=\"11\" data-several=\"2 forward\" "
                             "data-share=\"0.5\""));
  EXPECT_THAT(svg, HasSubstr("several (height"));
}

TEST(TimelineSvg, TheLegendNamesWhatIsDrawn) {
  const std::string svg = timeline_svg(drawn(two_stages())->drawing, "run", SvgUse::kPage);
  EXPECT_THAT(svg, HasSubstr(">update</text>"));
  EXPECT_THAT(svg, HasSubstr(">waits</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">evaluate</text>")));
  EXPECT_THAT(svg, Not(HasSubstr("several (height")));
}

TEST(TimelineSvg, ReplicasAreNamedIfThereAreSeveral) {
  auto pieces = two_stages();
  pieces.push_back({.begin = 0, .end = 10, .replica = 1});
  const std::string svg = timeline_svg(drawn(pieces)->drawing, "run", SvgUse::kPage);
  EXPECT_THAT(svg, HasSubstr(">replica 1, stage 0</text>"));
}

TEST(TimelineSvg, RoundsHaveTheirOwnColoursAndNames) {
  const auto made = drawn(two_stages_and_a_round());
  const std::string page = timeline_svg(made->drawing, "run", SvgUse::kPage);
  for (const char* kind : {"contribute", "reduce", "merge"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("<rect class=\"key {}\"", kind)));
    EXPECT_THAT(page, HasSubstr(fmt::format(">{}</text>", kind)));
    EXPECT_THAT(page, HasSubstr(fmt::format("<rect class=\"{}\" x=", kind)));
    EXPECT_EQ(count(page, fmt::format(".timeline .{} {{", kind)), 2u) << "light and dark";
  }
  EXPECT_THAT(page, Not(HasSubstr("await")));
  EXPECT_THAT(page, HasSubstr("data-w=\"7 1 0 0 30 95 2\" data-round=\"round 7\"/>"));
  EXPECT_THAT(page, HasSubstr("data-round=\"round 7, chunk 0, of replicas 0 2\""));
  EXPECT_THAT(page, HasSubstr("data-round=\"round 5, chunk 1, lag 2\""));
  // Like an evaluation: its colour, its height, its entry in the legend.
  EXPECT_THAT(page, HasSubstr("<rect class=\"contribute evaluation\" x="));
  EXPECT_THAT(page, HasSubstr("data-round=\"a copy for evaluation\""));
  EXPECT_THAT(page, HasSubstr(">evaluate</text>"));
}

TEST(TimelineSvg, TitlesDescribePiecesOfRounds) {
  auto pieces = two_stages_and_a_round();
  pieces.push_back({.kind = WorkKind::kMerge, .begin = 110, .end = 111, .microbatch = 6});
  pieces.push_back({.kind = WorkKind::kReduce,
                    .begin = 112,
                    .end = 113,
                    .microbatch = 1,
                    .lane = Lane::kEvaluation,
                    .replicas = {0, 1}});
  pieces.push_back({.kind = WorkKind::kRepeat,
                    .begin = 114,
                    .end = 115,
                    .microbatch = 3,
                    .lane = Lane::kMain,
                    .replicas = {1}});
  const std::string svg = timeline_svg(drawn(pieces)->drawing, "run", SvgUse::kFile);
  for (const char* title :
       {"contribute, round 7, update 1, version 0, 2 ns, 30 bytes",
        "reduce, round 7, chunk 0, of replicas 0 2, update 1, version 0, 3 ns, 40 bytes",
        "merge, round 5, chunk 1, lag 2, update 1, version 0, 4 ns, 0 bytes",
        "contribute, a copy for evaluation, update 1,",
        "merge, round 6, chunk 0, follows without contributing, update 1,",
        "reduce, mean of replicas 0 1 for evaluation, update 1,",
        "repeat, round 3, chunk 0, for replica 1, update 1,"}) {
    EXPECT_THAT(svg, HasSubstr(fmt::format("<title>{}", title)));
  }
}

}  // namespace
}  // namespace leeway
