#include "report/stage_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/human.h"

namespace leeway {
namespace {

// `records` are sorted by begin.
double covered_ns(std::span<const WorkRecord> records, const TimeSpan& window) {
  double sum = 0;
  Nanos until = window.begin;
  for (const WorkRecord& record : records) {
    const Nanos begin = std::max(record.times.begin, until);
    const Nanos end = std::min(record.times.end, window.end);
    if (end <= begin) continue;
    sum += static_cast<double>((end - begin).count);
    until = end;
  }
  return sum;
}

bool trains(WorkKind kind) {
  return kind == WorkKind::kForward || kind == WorkKind::kBackward || kind == WorkKind::kUpdate;
}

void count(StageRow& row, const WorkRecord& record) {
  row.bytes_sent += static_cast<double>(record.bytes_sent);
  if (record.work.kind == WorkKind::kBackward) {
    row.delay_max = std::max(row.delay_max, record.work.delay);
  }
}

// Leaves out the updates after a flush point in which the pipeline fills: as many as the largest
// delay, and at least one.
void add_delays(StageRow& row, const WorkerHistory& lane, const std::vector<int64_t>& flushes) {
  const int64_t filling = std::max<int64_t>(row.delay_max, 1);
  for (const WorkRecord& record : lane.records) {
    if (record.work.kind != WorkKind::kBackward) continue;
    const auto next = std::lower_bound(flushes.begin(), flushes.end(), record.work.update);
    if (next != flushes.begin() && record.work.update <= *(next - 1) + filling) continue;
    ++row.delayed;
    row.delay_sum += static_cast<double>(record.work.delay);
  }
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", *share * 100.0) : "-";
}

std::vector<std::string> cells(const StageRow& row, const std::string& name) {
  const auto share = row.after_warmup.share();
  std::vector<std::string> text = {name};
  for (const BusyTime& drawn : row.drawn) text.push_back(percent(drawn.share()));
  text.push_back(percent(share));
  text.push_back(percent(share ? std::optional(1.0 - *share) : std::nullopt));
  text.push_back(row.delay_mean() ? fmt::format("{:.2f}", *row.delay_mean()) : "-");
  text.push_back(fmt::format("{}", row.delay_max));
  text.push_back(shown_bytes(row.bytes_sent));
  return text;
}

}  // namespace

std::optional<double> BusyTime::share() const {
  if (whole_ns <= 0) return std::nullopt;
  return busy_ns / whole_ns;
}

BusyTime& BusyTime::operator+=(const BusyTime& other) {
  busy_ns += other.busy_ns;
  whole_ns += other.whole_ns;
  return *this;
}

BusyTime busy_in(const WorkerHistory& lane, const TimeSpan& window) {
  double busy = 0;
  for (size_t i = 0; i < lane.sessions(); ++i) busy += covered_ns(lane.session(i), window);
  return {.busy_ns = busy, .whole_ns = static_cast<double>(window.length().count)};
}

BusyTime busy_after_warmup(const WorkerHistory& lane) {
  BusyTime sum;
  for (size_t i = 0; i < lane.sessions(); ++i) {
    const auto records = lane.session(i);
    const auto first = std::find_if(records.begin(), records.end(), [](const WorkRecord& record) {
      return record.work.kind == WorkKind::kBackward;
    });
    if (first == records.end()) continue;
    TimeSpan window{first->times.begin, first->times.end};
    for (const WorkRecord& record : records) {
      if (trains(record.work.kind)) window.end = std::max(window.end, record.times.end);
    }
    sum += {.busy_ns = covered_ns(records, window),
            .whole_ns = static_cast<double>(window.length().count)};
  }
  return sum;
}

std::optional<double> StageRow::delay_mean() const {
  if (delayed == 0) return std::nullopt;
  return delay_sum / static_cast<double>(delayed);
}

StageRow& StageRow::operator+=(const StageRow& other) {
  drawn.resize(std::max(drawn.size(), other.drawn.size()));
  for (size_t i = 0; i < other.drawn.size(); ++i) drawn[i] += other.drawn[i];
  after_warmup += other.after_warmup;
  bytes_sent += other.bytes_sent;
  delayed += other.delayed;
  delay_sum += other.delay_sum;
  delay_max = std::max(delay_max, other.delay_max);
  return *this;
}

std::vector<StageRow> measure_stages(const WorkHistory& history,
                                     const std::vector<TimeSpan>& windows) {
  std::map<StageId, StageRow> by_stage;
  for (const WorkerHistory& lane : history.lanes) {
    StageRow row;
    for (const TimeSpan& window : windows) row.drawn.push_back(busy_in(lane, window));
    row.after_warmup = busy_after_warmup(lane);
    for (const WorkRecord& record : lane.records) count(row, record);
    add_delays(row, lane, history.flushes);
    by_stage[lane.worker.stage] += row;
  }
  std::vector<StageRow> rows;
  for (auto& [stage, row] : by_stage) {
    row.stage = stage;
    rows.push_back(std::move(row));
  }
  return rows;
}

StageRow total(const std::vector<StageRow>& rows) {
  StageRow sum;
  for (const StageRow& row : rows) sum += row;
  return sum;
}

TextTable stage_text(const std::vector<StageRow>& rows, const std::vector<std::string>& windows) {
  TextTable table;
  table.header = {"stage"};
  table.header.insert(table.header.end(), windows.begin(), windows.end());
  for (const char* name : {"after warm-up", "bubbles", "delay", "max", "sent"})
    table.header.push_back(name);
  for (const StageRow& row : rows) {
    table.rows.push_back(cells(row, fmt::format("{}", row.stage.value)));
  }
  if (rows.size() > 1) table.rows.push_back(cells(total(rows), "all"));
  return table;
}

}  // namespace leeway
