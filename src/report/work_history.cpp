#include "report/work_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "events/event_log.h"

namespace leeway {
namespace {

// Sums and differences of such numbers fit into 64 bits, and JavaScript holds them exactly.
bool is_count(int64_t value) {
  constexpr int64_t kCountMax = int64_t{1} << 53;
  return value >= 0 && value <= kCountMax;
}

// What a record says that cannot be; empty: nothing.
std::string_view complaint_about(const WorkRecord& record) {
  constexpr int64_t kTimeMax = 4'000'000'000'000'000'000;  // 126 years
  const Work& work = record.work;
  const bool counts = is_count(record.worker.replica.value) &&
                      is_count(record.worker.stage.value) && is_count(work.index) &&
                      is_count(work.update) && is_count(work.version) && is_count(work.delay) &&
                      is_count(work.chunk) && is_count(record.bytes_sent);
  if (!counts) return "a piece of work has a number below zero, or beyond all bounds";
  if (record.times.end < record.times.begin) return "a piece of work ends before it begins";
  if (record.times.begin.count < 0) return "a piece of work begins before the run";
  if (record.times.end.count > kTimeMax) return "a piece of work ends in another century";
  return {};
}

// Before lines are dropped, while the index of an event is still that of its line.
Status check_work(const std::vector<Event>& events, const std::string& name) {
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].kind() != kWorkEvent) continue;
    const auto record = work_of(events[i]);
    const std::string_view complaint =
        record.ok() ? complaint_about(*record) : std::string_view(record.error().message);
    if (complaint.empty()) continue;
    return Error{
        fmt::format("{}:{}: {}; remove the line to draw the rest", name, i + 1, complaint)};
  }
  return {};
}

// A lane as it grows: lines come in the order in which work ended, all workers mixed.
class LaneBuilder {
 public:
  void add(const WorkRecord& record, size_t sitting) {
    if (lane_.sitting_begins.empty() || sitting != last_sitting_) {
      lane_.sitting_begins.push_back(lane_.records.size());
    }
    last_sitting_ = sitting;
    lane_.records.push_back(record);
  }

  WorkerHistory finish(WorkerId worker) && {
    lane_.worker = worker;
    for (size_t i = 0; i < lane_.sittings(); ++i) {
      const auto begin =
          lane_.records.begin() + static_cast<std::ptrdiff_t>(lane_.sitting_begins[i]);
      const auto end = begin + static_cast<std::ptrdiff_t>(lane_.sitting(i).size());
      std::stable_sort(begin, end, [](const WorkRecord& a, const WorkRecord& b) {
        return a.times.begin < b.times.begin;
      });
    }
    return std::move(lane_);
  }

 private:
  WorkerHistory lane_;
  size_t last_sitting_ = 0;
};

// The updates that a log is about, and its time. An owner of a round works for others, maybe before
// its own first update: rounds count where there is nothing else.
class Extent {
 public:
  void add(const WorkRecord& record) {
    const bool first = all_.last == kNone;
    span_.begin = first ? record.times.begin : std::min(span_.begin, record.times.begin);
    span_.end = first ? record.times.end : std::max(span_.end, record.times.end);
    all_.add(record.work.update);
    if (!is_of_round(record.work.kind)) own_.add(record.work.update);
  }

  void write(WorkHistory& history) const {
    const Updates& updates = own_.last == kNone ? all_ : own_;
    history.span = span_;
    history.first_update = updates.first;
    history.last_update = updates.last;
  }

 private:
  static constexpr int64_t kNone = -1;
  struct Updates {
    int64_t first = kNone;
    int64_t last = kNone;
    void add(int64_t update) {
      first = last == kNone ? update : std::min(first, update);
      last = std::max(last, update);
    }
  };
  TimeSpan span_;
  Updates all_;
  Updates own_;
};

}  // namespace

std::string replicas_text(const ReplicaSet& replicas) {
  std::string text;
  for (const ReplicaId replica : replicas.members()) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", replica.value);
  }
  return text;
}

std::span<const WorkRecord> WorkerHistory::sitting(size_t index) const {
  const size_t begin = sitting_begins[index];
  const size_t end = index + 1 < sittings() ? sitting_begins[index + 1] : records.size();
  return std::span(records).subspan(begin, end - begin);
}

size_t WorkHistory::records() const {
  size_t sum = 0;
  for (const WorkerHistory& lane : lanes) sum += lane.records.size();
  return sum;
}

int64_t WorkHistory::replicas() const {
  std::set<ReplicaId> found;
  for (const WorkerHistory& lane : lanes) found.insert(lane.worker.replica);
  return static_cast<int64_t>(found.size());
}

int64_t WorkHistory::stages() const {
  std::set<StageId> found;
  for (const WorkerHistory& lane : lanes) found.insert(lane.worker.stage);
  return static_cast<int64_t>(found.size());
}

Result<WorkHistory> work_history(std::vector<Event> events, const std::string& name) {
  LEEWAY_TRY(check_work(events, name));
  WorkHistory history;
  std::map<WorkerId, LaneBuilder> lanes;
  std::set<int64_t> flushes = {0};
  Extent extent;
  size_t sitting = 0;
  for (const Event& event : drop_superseded(std::move(events))) {
    if (event.kind() == "resumed") {
      ++sitting;
      if (const auto update = event.integer("update"); update && is_count(*update)) {
        flushes.insert(*update);
      }
    }
    if (event.kind() != kWorkEvent) continue;
    const WorkRecord record = *work_of(event);
    extent.add(record);
    if (record.work.kind == WorkKind::kSave) flushes.insert(record.work.update);
    lanes[record.worker].add(record, sitting);
  }
  if (lanes.empty()) {
    return Error{
        fmt::format("{} records no work: an older version made it, or the run ended before "
                    "its first microbatch; train again to have something to draw",
                    name)};
  }
  extent.write(history);
  history.flushes.assign(flushes.begin(), flushes.end());
  for (auto& [worker, lane] : lanes) history.lanes.push_back(std::move(lane).finish(worker));
  return history;
}

Result<WorkHistory> read_work_history(const Path& run_folder) {
  std::error_code code;  // what cannot be looked at is not there
  if (!std::filesystem::is_regular_file(run_folder / "config.toml", code)) {
    return usage_error(fmt::format("{} is not a run folder; name what `leeway train --out` made",
                                   run_folder.string()));
  }
  const Path log = run_folder / "events.jsonl";
  if (!std::filesystem::exists(log, code)) {
    return Error{
        fmt::format("{} has no events.jsonl, so nobody knows what its workers did; train "
                    "again to have something to draw",
                    run_folder.string())};
  }
  LEEWAY_ASSIGN(EventHistory events, read_events(log));
  LEEWAY_ASSIGN(WorkHistory history, work_history(std::move(events.events), log.string()));
  history.cut = events.cut;
  return history;
}

}  // namespace leeway
