#include "report/work_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "events/event_log.h"

namespace leeway {
namespace {

bool is_count(int64_t value) { return value >= 0 && value <= kCountMax; }

// What is impossible in a record; empty: nothing.
std::string_view complaint_about(const WorkRecord& record) {
  constexpr int64_t kTimeMax = 4'000'000'000'000'000'000;  // 126 years
  const Work& work = record.work;
  const bool counts = is_count(record.worker.replica.value) &&
                      is_count(record.worker.stage.value) && is_count(work.index) &&
                      is_count(work.update) && is_count(work.version) && is_count(work.delay) &&
                      is_count(work.chunk) && is_count(record.bytes_sent);
  if (!counts) return "a piece of work has a number that is negative or too large";
  if (record.times.end < record.times.begin) return "a piece of work ends before it begins";
  if (record.times.begin.count < 0) return "a piece of work begins before the run";
  if (record.times.end.count > kTimeMax) return "a piece of work ends in another century";
  return {};
}

// Lines are in the order in which work ended.
void sort_sessions(WorkerHistory& lane) {
  for (size_t i = 0; i < lane.sessions(); ++i) {
    const auto begin = lane.records.begin() + static_cast<std::ptrdiff_t>(lane.session_begins[i]);
    const auto end = begin + static_cast<std::ptrdiff_t>(lane.session(i).size());
    std::stable_sort(begin, end, [](const WorkRecord& a, const WorkRecord& b) {
      return a.times.begin < b.times.begin;
    });
  }
}

}  // namespace

std::string replicas_text(const ReplicaSet& replicas) {
  std::string text;
  for (const ReplicaId replica : replicas.members()) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", replica.value);
  }
  return text;
}

std::span<const WorkRecord> WorkerHistory::session(size_t index) const {
  const size_t begin = session_begins[index];
  const size_t end = index + 1 < sessions() ? session_begins[index + 1] : records.size();
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

Result<WorkRecord> checked_work(const Event& event) {
  auto record = work_of(event);
  if (!record.ok()) return record;
  const std::string_view complaint = complaint_about(*record);
  if (!complaint.empty()) return Error{std::string(complaint)};
  return record;
}

void WorkHistoryBuilder::Updates::add(int64_t update) {
  first = last == -1 ? update : std::min(first, update);
  last = std::max(last, update);
}

void WorkHistoryBuilder::add_worker(WorkerId worker, std::optional<std::vector<TimeSpan>> covered) {
  lanes_[worker].history.covered = std::move(covered);
}

void WorkHistoryBuilder::cover_only_sessions() {
  for (auto& [worker, lane] : lanes_) {
    std::vector<TimeSpan> covered;
    for (size_t i = 0; i < lane.history.sessions(); ++i) {
      const auto records = lane.history.session(i);
      covered.push_back({records.front().times.begin, records.front().times.end});
      for (const WorkRecord& record : records) {
        covered.back().begin = std::min(covered.back().begin, record.times.begin);
        covered.back().end = std::max(covered.back().end, record.times.end);
      }
    }
    lane.history.covered = std::move(covered);
  }
}

void WorkHistoryBuilder::add(const WorkRecord& record, size_t session) {
  const bool first = all_.last == -1;
  span_.begin = first ? record.times.begin : std::min(span_.begin, record.times.begin);
  span_.end = first ? record.times.end : std::max(span_.end, record.times.end);
  all_.add(record.work.update);
  if (!is_of_round(record.work.kind)) own_.add(record.work.update);
  if (record.work.kind == WorkKind::kSave) add_flush(record.work.update);
  Lane& lane = lanes_[record.worker];
  WorkerHistory& history = lane.history;
  if (history.session_begins.empty() || session != lane.last_session) {
    history.session_begins.push_back(history.records.size());
  }
  lane.last_session = session;
  if (record.work.kind == WorkKind::kUpdate) lane.updates = record.work.update;
  history.records.push_back(record);
}

WorkHistory WorkHistoryBuilder::finish() && {
  LEEWAY_CHECK(!empty(), "a history must have work");
  // The owner of a round works for others, maybe before its own first update, so rounds count only
  // if there is nothing else.
  const Updates& updates = own_.last == -1 ? all_ : own_;
  WorkHistory history;
  history.span = span_;
  history.first_update = updates.first;
  history.last_update = updates.last;
  history.flushes.assign(flushes_.begin(), flushes_.end());
  history.made_by_all = lanes_.begin()->second.updates;
  for (auto& [worker, lane] : lanes_) {
    history.made_by_all = std::min(history.made_by_all, lane.updates);
    history.made_by_any = std::max(history.made_by_any, lane.updates);
    lane.history.worker = worker;
    history.partial = history.partial || lane.history.covered.has_value();
    sort_sessions(lane.history);
    history.lanes.push_back(std::move(lane.history));
  }
  return history;
}

Status check_is_run(const Path& folder) {
  LEEWAY_TRY(check_log_is_of_run(folder));
  std::error_code code;  // what cannot be read counts as missing
  if (std::filesystem::is_regular_file(folder / "config.toml", code)) return {};
  return usage_error(fmt::format("{} is not a run folder; name one that `leeway train --out` wrote",
                                 folder.string()));
}

}  // namespace leeway
