#include "events/line_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "events/event.h"

namespace leeway {
namespace {

using testing::HasSubstr;

LineFacts facts(std::string_view line) {
  const auto found = facts_of(line);
  EXPECT_TRUE(found.ok()) << line << ": " << found.error().message;
  return found.ok() ? *found : LineFacts{};
}

std::string without_tick(std::string_view line) {
  std::string text;
  append_without_tick(line, facts(line), text);
  return text;
}

TEST(LineFacts, AreThoseOfALineAsWeWriteIt) {
  const LineFacts work =
      facts(R"({"event":"work","kind":"update","replica":3,"stage":1,"tick":12,"bytes":0})");
  EXPECT_EQ(work.kind, LineKind::kWork);
  EXPECT_EQ(work.tick, 12);
  EXPECT_EQ(work.worker, (WorkerId{.replica = {3}, .stage = {1}}));
  EXPECT_GT(work.tick_end, work.tick_begin) << "it was not parsed";
  const LineFacts plain = facts(R"({"event":"update","loss":2.5e-3,"good":true,"none":null})");
  EXPECT_EQ(plain.kind, LineKind::kOther);
  EXPECT_FALSE(plain.tick || plain.worker);
  EXPECT_EQ(facts(R"({"event":"started"})").kind, LineKind::kStarted);
  EXPECT_EQ(facts(R"({"event":"resumed"})").kind, LineKind::kResumed);
  EXPECT_EQ(facts(R"({"event":"joined"})").kind, LineKind::kJoined);
}

TEST(LineFacts, TheTickIsTakenOutAndTheRestStaysAsItIs) {
  EXPECT_EQ(without_tick(R"({"event":"a","x":1.50})"), R"({"event":"a","x":1.50})");
  EXPECT_EQ(without_tick(R"({"event":"a","tick":7})"), R"({"event":"a"})");
  EXPECT_EQ(without_tick(R"({"event":"a","tick":7,"x":1.50})"), R"({"event":"a","x":1.50})");
}

TEST(LineFacts, AreTheSameForAnyValidForm) {
  for (const std::string_view line : {
           R"({"tick":7,"event":"work","replica":1,"stage":2})",
           R"( { "event" : "work", "replica" : 1, "tick" : 7, "stage" : 2 } )",
           R"({"event":"work","tick":3,"replica":1,"stage":2,"tick":7})",
           R"({"event":"work","replica":9,"stage":2,"tick":7,"replica":1})",
           R"({"event":"joined","event":"work","replica":1,"stage":2,"tick":7})",
           R"({"event":"work","\u0074ick":7,"replica":1,"stage":2})",
           R"({"event":"work","note":"a \"tick\":5, b","replica":1,"stage":2,"tick":7})",
           R"({"event":"work","note":"tick","a\"tick":5,"replica":1,"stage":2,"tick":7})",
       }) {
    const LineFacts found = facts(line);
    EXPECT_EQ(found.kind, LineKind::kWork) << line;
    EXPECT_EQ(found.tick, 7) << line;
    EXPECT_EQ(found.worker, (WorkerId{.replica = {1}, .stage = {2}})) << line;
    EXPECT_EQ(*Event::parse(without_tick(line)), Event::parse(line)->remove("tick")) << line;
  }
  EXPECT_FALSE(facts(R"({"event":"a","note":"\"tick\":5,"})").tick);
  EXPECT_FALSE(facts(R"({"event":"a","note":"x,tick:5"})").tick);
}

TEST(LineFacts, SayWhatIsNoEvent) {
  for (const std::string_view line :
       {"", "{", "{}", "rubbish", R"({"event":7})", R"({"event":"a",})", R"({"event":"a"},)",
        R"({"event":"a","x":})", R"({"event":"a","x":[1]})", R"({"event":"a" "x":1})"}) {
    EXPECT_FALSE(facts_of(line).ok()) << line;
  }
  for (const std::string_view tick : {"1.5", "\"7\"", "null", "99999999999999999999"}) {
    const std::string line = R"({"event":"a","tick":)" + std::string(tick) + "}";
    EXPECT_THAT(facts_of(line).error().message, HasSubstr("tick")) << line;
  }
}

}  // namespace
}  // namespace leeway
