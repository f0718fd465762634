// With random pieces of work and random events: what is written reads back, and nothing crashes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "events/event_log.h"
#include "events/work.h"

namespace leeway {
namespace {

WorkRecord any_record() {
  const auto any = [] { return *rc::gen::arbitrary<int64_t>(); };
  WorkRecord record;
  record.worker = {.replica = {any()}, .stage = {any()}};
  record.work.kind = static_cast<WorkKind>(*rc::gen::inRange(0, kWorkKinds));
  record.work.update = any();
  record.work.version = any();
  record.work.delay = any();
  const WorkKind kind = record.work.kind;
  const bool counts_updates =
      kind == WorkKind::kUpdate || kind == WorkKind::kSave || kind == WorkKind::kReport;
  record.work.index = counts_updates ? record.work.update : any();
  record.times = {Nanos{any()}, Nanos{any()}};
  record.bytes_sent = any();
  return record;
}

RC_GTEST_PROP(Work, AnyRecordSurvivesItsLine, ()) {
  const WorkRecord record = any_record();
  const auto event = Event::parse(to_event(record).line());
  RC_ASSERT(event.ok());
  const auto back = work_of(*event);
  RC_ASSERT(back.ok());
  RC_ASSERT(back->worker == record.worker);
  RC_ASSERT(back->work == record.work);
  RC_ASSERT(back->times.begin == record.times.begin);
  RC_ASSERT(back->times.end == record.times.end);
  RC_ASSERT(back->bytes_sent == record.bytes_sent);
}

RC_GTEST_PROP(Work, AFieldOfAnotherTypeIsRejectedAndNeverCrashes, ()) {
  Event event = to_event(any_record());
  const auto name = *rc::gen::element<std::string>("replica", "stage", "update", "version", "delay",
                                                   "begin", "end", "bytes", "kind");
  event.add(name, *rc::gen::arbitrary<std::string>());
  const auto back = work_of(event);
  RC_ASSERT(!back.ok() || name == "kind");  // a random word may be a valid kind
}

}  // namespace
}  // namespace leeway
