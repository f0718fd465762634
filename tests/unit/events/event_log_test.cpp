#include "events/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "../../support/file_size_limit.h"
#include "../../support/superseded.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Event update_event(int64_t n) { return Event("update").add("update", n); }

// Writes these lines as if a run had written them.
void write_lines(const Path& path, const std::string& text) {
  ASSERT_TRUE(write_atomically(path, text).ok());
}

TEST(Event, IsOneLineOfJsonInOrder) {
  const Event event = Event("update")
                          .add("update", 3)
                          .add("loss", 2.5)
                          .add("rate", 1.0)
                          .add("name", "a\"b\nc")
                          .add("good", true);
  EXPECT_EQ(event.line(),
            R"({"event":"update","update":3,"loss":2.5,"rate":1.0,"name":"a\"b\nc","good":true})");
}

TEST(Event, NumbersThatAreNotFiniteBecomeNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Event event = Event("update")
                          .add("loss", std::numeric_limits<double>::quiet_NaN())
                          .add("up", infinity)
                          .add("down", -infinity);
  EXPECT_EQ(event.line(), R"({"event":"update","loss":null,"up":null,"down":null})");
  EXPECT_EQ(event.number("loss"), std::nullopt);
  EXPECT_NE(event.find("loss"), nullptr);
}

TEST(Event, ParseIsTheInverse) {
  const Event event = Event("evaluated")
                          .add("update", int64_t{-7})
                          .add("loss", 0.1 + 0.2)
                          .add("whole", 2.0)
                          .add("path", "größe")
                          .add("nan", std::numeric_limits<double>::quiet_NaN())
                          .add("last", false);
  const auto parsed = Event::parse(event.line());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, event);
  EXPECT_EQ(parsed->number("loss"), 0.1 + 0.2);
}

TEST(Event, ValuesAreReadByType) {
  const Event event = Event("update").add("n", 3).add("x", 0.5).add("t", "words");
  EXPECT_EQ(event.integer("n"), 3);
  EXPECT_EQ(event.number("n"), 3.0);
  EXPECT_EQ(event.number("x"), 0.5);
  EXPECT_EQ(event.text("t"), "words");
  EXPECT_EQ(event.integer("x"), std::nullopt);
  EXPECT_EQ(event.text("n"), std::nullopt);
  EXPECT_EQ(event.number("none"), std::nullopt);
}

TEST(Event, SameNameTwiceKeepsTheLastValue) {
  EXPECT_EQ(Event("a").add("x", 1).add("y", 2).add("x", 3).line(), R"({"event":"a","x":3,"y":2})");
}

TEST(Event, BytesThatAreNotUtf8DoNotStopTheLog) {
  EXPECT_TRUE(Event::parse(Event("a").add("path", "\xff\xfe").line()).ok());
}

TEST(Event, RejectsWhatIsNotAnEvent) {
  for (const char* line :
       {"", "{", "[]", "7", "{}", R"({"event":3})", R"({"event":"a","x":[1]})",
        R"({"event":"a","x":{}})", R"({"event":"a","x":18446744073709551615})"}) {
    EXPECT_FALSE(Event::parse(line).ok()) << line;
  }
}

TEST(EventLog, WritesAtFlushAndNotBefore) {
  const TemporaryFolder folder;
  auto log = EventLog::open(folder / "events.jsonl", /*append=*/false);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->write(update_event(1)).ok());
  EXPECT_EQ(*read_text(folder / "events.jsonl"), "");
  ASSERT_TRUE(log->flush().ok());
  EXPECT_EQ(*read_text(folder / "events.jsonl"), "{\"event\":\"update\",\"update\":1}\n");
}

TEST(EventLog, ManyLinesAreWrittenWithoutAFlush) {
  const TemporaryFolder folder;
  auto log = EventLog::open(folder / "events.jsonl", /*append=*/false);
  ASSERT_TRUE(log.ok());
  for (int64_t n = 0; n < 5000; ++n) ASSERT_TRUE(log->write(update_event(n)).ok());
  EXPECT_GT(std::filesystem::file_size(folder / "events.jsonl"), 65'536u);
}

TEST(EventLog, DestructorFlushes) {
  const TemporaryFolder folder;
  {
    auto log = EventLog::open(folder / "events.jsonl", /*append=*/false);
    ASSERT_TRUE(log->write(update_event(1)).ok());
    const EventLog moved = std::move(*log);
  }
  const auto history = read_events(folder / "events.jsonl");
  ASSERT_TRUE(history.ok());
  EXPECT_THAT(history->events, ElementsAre(update_event(1)));
  EXPECT_FALSE(history->cut);
}

TEST(EventLog, AppendContinuesAndAFreshOneStartsEmpty) {
  const TemporaryFolder folder;
  const Path path = folder / "events.jsonl";
  for (int64_t n : {1, 2}) {
    auto log = EventLog::open(path, /*append=*/true);
    ASSERT_TRUE(log->write(update_event(n)).ok());
  }
  EXPECT_THAT(read_events(path)->events, ElementsAre(update_event(1), update_event(2)));
  { ASSERT_TRUE(EventLog::open(path, /*append=*/false).ok()); }
  EXPECT_TRUE(read_events(path)->events.empty());
}

TEST(EventLog, AppendRemovesAnIncompleteLine) {
  const TemporaryFolder folder;
  const Path path = folder / "events.jsonl";
  write_lines(path, update_event(1).line() + "\n{\"event\":\"upd");
  {
    auto log = EventLog::open(path, /*append=*/true);
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(log->write(update_event(2)).ok());
  }
  const auto history = read_events(path);
  ASSERT_TRUE(history.ok()) << history.error().message;
  EXPECT_THAT(history->events, ElementsAre(update_event(1), update_event(2)));
}

TEST(EventLog, FullDiskIsReportedOnce) {
  auto log = EventLog::open("/dev/full", /*append=*/false);
  ASSERT_TRUE(log.ok()) << log.error().message;
  ASSERT_TRUE(log->write(update_event(1)).ok());
  const Status first = log->flush();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().message,
            "cannot write /dev/full: No space left on device "
            "(free some space, or choose another place)");
  EXPECT_TRUE(log->write(update_event(2)).ok());
  EXPECT_TRUE(log->flush().ok());
}

TEST(EventLog, FailureInTheMiddleKeepsWholeLines) {
  const TemporaryFolder folder;
  const Path path = folder / "events.jsonl";
  auto log = EventLog::open(path, /*append=*/false);
  ASSERT_TRUE(log->write(update_event(1)).ok());
  ASSERT_TRUE(log->flush().ok());
  ASSERT_TRUE(log->write(update_event(2)).ok());
  {
    const FileSizeLimit limit(40);  // inside the second line
    EXPECT_FALSE(log->flush().ok());
  }
  const auto history = read_events(path);
  ASSERT_TRUE(history.ok());
  EXPECT_THAT(history->events, ElementsAre(update_event(1)));
  EXPECT_FALSE(history->cut);
  ASSERT_TRUE(log->write(update_event(3)).ok());
  ASSERT_TRUE(log->flush().ok()) << "there is room again";
  EXPECT_THAT(read_events(path)->events,
              ElementsAre(update_event(1), update_event(2), update_event(3)));
}

TEST(EventLog, SaysHowMuchWasLostWhenMemoryWasFullToo) {
  const TemporaryFolder folder;
  const Path path = folder / "events.jsonl";
  auto log = EventLog::open(path, /*append=*/false);
  const Event large = Event("large").add("text", std::string(8 << 20, 'x'));
  {
    const FileSizeLimit limit(40);
    EXPECT_FALSE(log->write(large).ok());
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(log->write(large).ok());
  }
  ASSERT_TRUE(log->flush().ok());
  const auto history = read_events(path);
  ASSERT_TRUE(history.ok()) << history.error().message;
  ASSERT_EQ(history->events.size(), 9u);
  EXPECT_EQ(history->events.back(), Event("lost").add("events", 3));
}

TEST(EventLog, AMissingFolderIsAClearError) {
  const auto log = EventLog::open("no/such/events.jsonl", /*append=*/true);
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.error().message, HasSubstr("cannot write no/such/events.jsonl: No such file"));
}

TEST(ReadEvents, AnIncompleteLastLineIsReportedAndLeftOut) {
  const TemporaryFolder folder;
  write_lines(folder / "e", update_event(1).line() + "\n" + R"({"event":"update","upd)");
  const auto history = read_events(folder / "e");
  ASSERT_TRUE(history.ok());
  EXPECT_TRUE(history->cut);
  EXPECT_THAT(history->events, ElementsAre(update_event(1)));
}

TEST(ReadEvents, AWholeLastLineWithoutLineEndCounts) {
  const TemporaryFolder folder;
  write_lines(folder / "e", update_event(1).line());
  const auto history = read_events(folder / "e");
  ASSERT_TRUE(history.ok());
  EXPECT_FALSE(history->cut);
  EXPECT_EQ(history->events.size(), 1u);
}

TEST(ReadEvents, GarbageElsewhereNamesTheLine) {
  const TemporaryFolder folder;
  write_lines(folder / "e", update_event(1).line() + "\nrubbish\n" + update_event(2).line() + "\n");
  const auto history = read_events(folder / "e");
  ASSERT_FALSE(history.ok());
  EXPECT_EQ(history.error().message,
            (folder / "e").string() +
                ":2 is not an event (not a JSON object); remove the line to read the rest");
}

TEST(ReadEvents, EmptyAndMissingFiles) {
  const TemporaryFolder folder;
  write_lines(folder / "e", "");
  EXPECT_TRUE(read_events(folder / "e")->events.empty());
  EXPECT_FALSE(read_events(folder / "none").ok());
}

TEST(DropSuperseded, ResumedRunsReplaceWhatTheyRepeated) {
  const Event started = Event("started").add("seed", 1);
  const Event resumed = Event("resumed").add("update", 2);
  const auto kept = drop_superseded({started, update_event(1), update_event(2), update_event(3),
                                     update_event(4), resumed, update_event(3)});
  EXPECT_THAT(kept,
              ElementsAre(started, update_event(1), update_event(2), resumed, update_event(3)));
}

TEST(DropSuperseded, AReplicaThatWasAheadResumesFromThere) {
  const auto of_replica = [](int64_t replica, int64_t update) {
    return Event("work").add("replica", replica).add("update", update);
  };
  const Event resumed = Event("resumed").add("update", 2).add("update_1", 3);
  EXPECT_THAT(drop_superseded({of_replica(0, 2), of_replica(0, 3), of_replica(1, 3),
                               of_replica(1, 4), update_event(3), resumed}),
              ElementsAre(of_replica(0, 2), of_replica(1, 3), resumed));
}

TEST(DropSuperseded, AnEarlierResumedIsDroppedIfALaterOneStartsBeforeIt) {
  const Event first = Event("resumed").add("update", 3);
  const Event second = Event("resumed").add("update", 1);
  EXPECT_THAT(drop_superseded({update_event(1), update_event(3), first, update_event(4), second,
                               update_event(2)}),
              ElementsAre(update_event(1), second, update_event(2)));
}

}  // namespace
}  // namespace leeway
