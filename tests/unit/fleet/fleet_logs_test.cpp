#include "fleet/fleet_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/data_files.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ProcessId kFirst = {11};
constexpr ProcessId kSecond = {22};
constexpr const char* kStarted = "{\"event\":\"started\",\"run\":\"00000000000000ab\"}\n";

std::string joined(int64_t process) {
  return "{\"event\":\"joined\",\"process\":" + std::to_string(process) + ",\"session\":1}\n";
}

Status store(const Path& run, ProcessId process, int64_t begin, std::string_view text) {
  return store_log_part(run, process, "events.jsonl", begin, std::as_bytes(std::span(text)));
}

Path incoming(const Path& run, int64_t process) {
  return run / "logs" / "incoming" / ("process-" + std::to_string(process)) / "events.jsonl";
}

TEST(FleetLogs, PartsBecomeAFile) {
  const TemporaryFolder run;
  ASSERT_TRUE(store(run.path(), kFirst, 0, "one\ntw").ok());
  ASSERT_TRUE(store(run.path(), kSecond, 0, "another\n").ok());
  ASSERT_TRUE(store(run.path(), kFirst, 6, "o\n").ok());
  EXPECT_EQ(*read_text(incoming(run.path(), 11)), "one\ntwo\n");
  EXPECT_EQ(*read_text(incoming(run.path(), 22)), "another\n");
}

TEST(FleetLogs, ALogThatComesAgainReplacesTheFirst) {
  const TemporaryFolder run;
  ASSERT_TRUE(store(run.path(), kFirst, 0, "session 1\n").ok());
  ASSERT_TRUE(store(run.path(), kFirst, 0, "session 1\nsession 2\n").ok());
  EXPECT_EQ(*read_text(incoming(run.path(), 11)), "session 1\nsession 2\n");
}

TEST(FleetLogs, APartThatIsMissingIsAnError) {
  const TemporaryFolder run;
  EXPECT_FALSE(store(run.path(), kFirst, 5, "two\n").ok());
  ASSERT_TRUE(store(run.path(), kFirst, 0, "one\n").ok());
  EXPECT_FALSE(store(run.path(), kFirst, 5, "two\n").ok());
  EXPECT_EQ(*read_text(incoming(run.path(), 11)), "one\n");
}

TEST(FleetLogs, APartThatComesTwiceChangesNothing) {
  const TemporaryFolder run;
  ASSERT_TRUE(store(run.path(), kFirst, 0, "one\n").ok());
  ASSERT_TRUE(store(run.path(), kFirst, 4, "two\n").ok());
  static_cast<void>(store(run.path(), kFirst, 4, "two\n"));
  EXPECT_EQ(*read_text(incoming(run.path(), 11)), "one\ntwo\n");
}

TEST(FleetLogs, BecomeOneLogAndAreKept) {
  const TemporaryFolder run;
  write_data(run / "events.jsonl", std::string(kStarted) + "{\"event\":\"a\"}\n");
  ASSERT_TRUE(store(run.path(), kFirst, 0, joined(11) + "{\"event\":\"b\"}\n").ok());
  // One that was killed has sent nothing, but its folder is here.
  write_data(run.path() / "processes" / "ab" / "process-22" / "events.jsonl",
             joined(22) + "{\"event\":\"c\"}\n");
  const auto missing =
      merge_fleet_logs(run.path(), "ab", {{kFirst, "one"}, {kSecond, "two"}, {{33}, "three"}}, 1);
  ASSERT_TRUE(missing.ok()) << missing.error().message;
  EXPECT_THAT(*missing, ElementsAre("the log of three is missing: its work is in no timeline"));
  const std::string merged = *read_text(run / "events.jsonl");
  for (const char* event : {"\"a\"", "\"b\"", "\"c\""}) EXPECT_THAT(merged, HasSubstr(event));
  EXPECT_TRUE(merged.starts_with("{\"event\":\"started\""));
  const Path kept = run.path() / "logs" / "session-1";
  EXPECT_THAT(*read_text(kept / "coordinator" / "events.jsonl"), HasSubstr("\"a\""));
  EXPECT_THAT(*read_text(kept / "process-11" / "events.jsonl"), HasSubstr("\"b\""));
  EXPECT_FALSE(std::filesystem::exists(run.path() / "logs" / "incoming"));
  EXPECT_FALSE(std::filesystem::exists(run.path() / "logs" / "merged"));
}

TEST(FleetLogs, WithoutOtherProcessesTheLogStaysAsItIs) {
  const TemporaryFolder run;
  write_data(run / "events.jsonl", kStarted);
  const auto missing = merge_fleet_logs(run.path(), "ab", {}, 1);
  ASSERT_TRUE(missing.ok()) << missing.error().message;
  EXPECT_THAT(*missing, IsEmpty());
  EXPECT_EQ(*read_text(run / "events.jsonl"), kStarted);
}

}  // namespace
}  // namespace leeway
