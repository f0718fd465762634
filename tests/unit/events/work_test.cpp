#include "events/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leeway {
namespace {

using testing::HasSubstr;

WorkRecord record_of(WorkKind kind) {
  WorkRecord record;
  record.worker = {.replica = {2}, .stage = {1}};
  record.work = {.kind = kind, .index = 12, .update = 4, .version = 2, .delay = 1};
  const bool of_update = kind == WorkKind::kUpdate || kind == WorkKind::kSave;
  if (of_update || kind == WorkKind::kReport) record.work.index = 4;
  if (is_of_round(kind)) {
    record.work.lane = Lane::kMain;
    record.work.chunk = 3;
  }
  if (is_of_round(kind) || kind == WorkKind::kAdopt) {
    for (const int64_t replica : {0, 2, 130}) record.work.replicas.add({replica});
  }
  record.times = {Nanos{1200}, Nanos{3400}};
  record.bytes_sent = 65536;
  return record;
}

constexpr WorkKind kAllKinds[] = {WorkKind::kForward, WorkKind::kBackward, WorkKind::kUpdate,
                                  WorkKind::kSave,    WorkKind::kEvaluate, WorkKind::kContribute,
                                  WorkKind::kReduce,  WorkKind::kMerge,    WorkKind::kAwait,
                                  WorkKind::kRepeat,  WorkKind::kAdopt,    WorkKind::kTransfer,
                                  WorkKind::kReport};

TEST(Work, IsTheLineShownInTheHeader) {
  EXPECT_EQ(to_event(record_of(WorkKind::kForward)).line(),
            R"({"event":"work","kind":"forward","replica":2,"stage":1,"microbatch":12,"update":4,)"
            R"("version":2,"delay":1,"begin":1200,"end":3400,"bytes":65536})");
}

TEST(Work, APieceOfARoundNamesItsLaneAndReplicas) {
  WorkRecord record = record_of(WorkKind::kReduce);
  record.norms = RoundNorms{.count = 4, .drift = 1, .correction = 1, .spread = 16, .scale = 36};
  EXPECT_EQ(to_event(record).line(),
            R"({"event":"work","kind":"reduce","replica":2,"stage":1,"round":12,"lane":"main",)"
            R"("chunk":3,"replicas":"0 2 130","update":4,"version":2,"delay":1,"begin":1200,)"
            R"("end":3400,"bytes":65536,"spread":2.0,"scale":3.0})");
  record.work.kind = WorkKind::kMerge;
  const Event merge = to_event(record);
  EXPECT_EQ(merge.number("drift"), 0.5);
  EXPECT_EQ(merge.number("correction"), 0.5);
  EXPECT_EQ(merge.find("spread"), nullptr);
}

TEST(Work, AMergeInsideAnUpdateSaysWhere) {
  WorkRecord record = record_of(WorkKind::kMerge);
  EXPECT_EQ(to_event(record).find("position"), nullptr);
  EXPECT_DOUBLE_EQ(lag_of(record.work), 1);
  record.work.position = 3;
  record.work.positions = 4;
  EXPECT_DOUBLE_EQ(lag_of(record.work), 1.75);
  EXPECT_EQ(work_of(to_event(record))->work, record.work);
  for (const int64_t position : {-1, 4, 5}) {
    Event event = to_event(record);
    event.add("position", position);
    EXPECT_EQ(work_of(event).error().message, "a piece of work has no valid \"position\"");
  }
  Event without = to_event(record);
  without.add("positions", "words");
  EXPECT_FALSE(work_of(without).ok());
  record.work.replicas = {};
  EXPECT_EQ(lag_of(record.work), 0) << "it has sent no part";
}

TEST(Work, TheSetOfReplicasMayBeEmpty) {
  WorkRecord record = record_of(WorkKind::kContribute);
  record.work.replicas = {};
  EXPECT_EQ(work_of(to_event(record))->work, record.work);
}

TEST(Work, RoundsOfUnknownLanesOrReplicasAreRejected) {
  for (const char* name : {"lane", "replicas"}) {
    for (const char* word : {"sing", "1,2", "-1", "256", "1 2x"}) {
      Event event = to_event(record_of(WorkKind::kMerge));
      event.add(name, word);
      const auto back = work_of(event);
      ASSERT_FALSE(back.ok()) << name << " " << word;
      EXPECT_NE(back.error().message.find(std::string("valid \"") + name), std::string::npos);
    }
  }
  Event event = to_event(record_of(WorkKind::kMerge));
  event.add("chunk", "words");
  EXPECT_EQ(work_of(event).error().message, "a piece of work has no \"chunk\"");
}

TEST(Work, EveryKindReadsBackTheSame) {
  static_assert(std::size(kAllKinds) == kWorkKinds);
  for (const WorkKind kind : kAllKinds) {
    const WorkRecord record = record_of(kind);
    const auto line = Event::parse(to_event(record).line());
    ASSERT_TRUE(line.ok());
    const auto back = work_of(*line);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->worker, record.worker);
    EXPECT_EQ(back->work, record.work) << work_kind_word(kind);
    EXPECT_EQ(back->times.begin, record.times.begin);
    EXPECT_EQ(back->times.end, record.times.end);
    EXPECT_EQ(back->bytes_sent, record.bytes_sent);
  }
}

TEST(Work, OnlyKindsThatHaveAnIndexWriteOne) {
  EXPECT_NE(to_event(record_of(WorkKind::kBackward)).find("microbatch"), nullptr);
  EXPECT_NE(to_event(record_of(WorkKind::kEvaluate)).find("batch"), nullptr);
  EXPECT_NE(to_event(record_of(WorkKind::kRepeat)).find("round"), nullptr);
  EXPECT_EQ(to_event(record_of(WorkKind::kForward)).find("lane"), nullptr);
  for (const WorkKind kind : {WorkKind::kUpdate, WorkKind::kSave}) {
    EXPECT_EQ(to_event(record_of(kind)).find("microbatch"), nullptr);
    EXPECT_EQ(to_event(record_of(kind)).find("batch"), nullptr);
  }
}

TEST(Work, AMissingFieldIsNamed) {
  for (const char* name :
       {"replica", "stage", "microbatch", "update", "version", "delay", "begin", "end", "bytes"}) {
    Event event = to_event(record_of(WorkKind::kForward));
    event.add(name, "words");  // another type counts as missing
    const auto back = work_of(event);
    ASSERT_FALSE(back.ok()) << name;
    EXPECT_EQ(back.error().message, std::string("a piece of work has no \"") + name + "\"");
  }
}

TEST(Work, OtherEventsAndUnknownKindsAreRejected) {
  Event sings = to_event(record_of(WorkKind::kForward));
  sings.add("kind", "sing");
  Event numbered = to_event(record_of(WorkKind::kForward));
  numbered.add("kind", 3);
  const Event other = Event("update").add("kind", "forward");
  for (const Event& event : {sings, numbered, other, Event("work")}) {
    const auto back = work_of(event);
    ASSERT_FALSE(back.ok()) << event.line();
    EXPECT_THAT(back.error().message, HasSubstr("not a kind of work that this version knows"));
  }
}

TEST(Work, AFractionIsNotACount) {
  Event event = to_event(record_of(WorkKind::kForward));
  event.add("begin", 1.5);
  EXPECT_FALSE(work_of(event).ok());
}

}  // namespace
}  // namespace leeway
