#include "report/stage_table.h"

#include <fmt/format.h>

#include <algorithm>

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
  BusyTime sum;
  for (size_t i = 0; i < lane.sessions(); ++i) sum.busy_ns += covered_ns(lane.session(i), window);
  if (!lane.covered) sum.whole_ns = static_cast<double>(window.length().count);
  for (const TimeSpan& known : lane.covered.value_or(std::vector<TimeSpan>())) {
    const Nanos begin = std::max(known.begin, window.begin);
    const Nanos end = std::min(known.end, window.end);
    if (end > begin) sum.whole_ns += static_cast<double>((end - begin).count);
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

void add_drawn(std::vector<StageRow>& rows, const WorkHistory& history,
               const std::vector<TimeSpan>& windows) {
  for (const WorkerHistory& lane : history.lanes) {
    StageRow drawn;
    for (const TimeSpan& window : windows) drawn.drawn.push_back(busy_in(lane, window));
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const StageRow& stage) {
      return stage.stage == lane.worker.stage;
    });
    if (row != rows.end()) *row += drawn;
  }
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
