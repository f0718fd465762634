// Random logs, cut anywhere: following a run in parts gives the same result as reading it at once.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <fstream>

#include "../../support/superseded.h"
#include "../../support/temporary_folder.h"
#include "report/run_follower.h"

namespace leeway {
namespace {

int64_t between(int64_t min, int64_t max) { return *rc::gen::inRange<int64_t>(min, max + 1); }

Event any_event(int64_t update, int64_t time) {
  switch (between(0, 9)) {
    case 0:
      return Event("resumed").add("update", between(0, update)).add("update_1", update);
    case 1:
      return Event("evaluated").add("update", update).add("valid_loss", 1.5).add("seconds", 2.0);
    case 2:
      return Event("ended").add("update", update).add("finished", between(0, 1) == 1);
    case 3:
      return Event("work").add("kind", "unheard of").add("update", update);
    case 4:
    case 5:
      return Event("update")
          .add("update", update)
          .add("loss", between(0, 9) == 0 ? std::nan("") : static_cast<double>(between(0, 99)))
          .add("tokens", 10 * update)
          .add("seconds", static_cast<double>(time));
    default: {
      WorkRecord record;
      record.worker = {.replica = {between(0, 1)}, .stage = {between(0, 2)}};
      record.work.kind = static_cast<WorkKind>(between(0, kWorkKinds - 1));
      record.work.update = update;
      record.work.delay = between(0, 300);
      record.work.lane = static_cast<Lane>(between(0, kLanes - 1));
      record.times = {Nanos{time}, Nanos{time + between(0, 9)}};
      record.bytes_sent = between(0, 100);
      return to_event(record);
    }
  }
}

std::string any_log() {
  std::string log;
  const int64_t lines = between(0, 80);
  for (int64_t i = 0; i < lines; ++i) log += any_event(1 + i / 6, 10 * i).line() + "\n";
  return log;
}

// Small limits, so that thinning and forgetting happen.
const RunLimits kLimits = {.points_max = 8, .pieces_max = 20, .boxes_max = 50};

RC_GTEST_PROP(RunFollower, ReadsTheSameInPartsAsAtOnce, ()) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.toml") << "[mesh]\nreplicas = 2\n";
  const std::string log = any_log();
  auto follower = RunFollower::open(folder.path(), kLimits);
  RC_ASSERT(follower.ok());
  for (size_t begin = 0; begin < log.size();) {
    const size_t count = static_cast<size_t>(between(1, 2000));
    std::ofstream(folder / "events.jsonl", std::ios::app) << log.substr(begin, count);
    begin += count;
    RC_ASSERT(follower->poll().ok());
  }
  const auto whole = read_run(folder.path(), kLimits);
  RC_ASSERT(whole.ok());
  RC_ASSERT(to_json(follower->data()).dump() == to_json(*whole).dump());
}

RC_GTEST_PROP(RunFollower, CountsLinesThatNoLaterSessionRepeats, ()) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.toml") << "";
  const std::string log = any_log();
  std::ofstream(folder / "events.jsonl") << log;
  const auto events = read_events(folder / "events.jsonl");
  RC_ASSERT(events.ok());
  int64_t bytes = 0;
  int64_t losses = 0;
  for (const Event& event : drop_superseded(events->events)) {
    if (event.kind() == "work") bytes += event.integer("bytes").value_or(0);
    if (event.kind() == "update" && event.number("loss")) ++losses;
  }
  const auto run = read_run(folder.path(), kLimits);
  RC_ASSERT(run.ok());
  int64_t counted = 0;
  for (const int64_t purpose : run->headline.bytes) counted += purpose;
  RC_ASSERT(counted == bytes);
  RC_ASSERT(run->curve(Curve::kTrainLoss).seen() == losses);
  RC_ASSERT(run->curve(Curve::kTrainLoss).points().size() <= kLimits.points_max);
}

}  // namespace
}  // namespace leeway
