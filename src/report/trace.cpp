#include "report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace leeway {
namespace {

// Exact to the nanosecond; a double of microseconds is not in long runs.
std::string microseconds(Nanos time) {
  const char* sign = time.count < 0 ? "-" : "";
  const uint64_t size =
      time.count < 0 ? 0 - static_cast<uint64_t>(time.count) : static_cast<uint64_t>(time.count);
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

bool is_training(WorkKind kind) {
  return kind == WorkKind::kForward || kind == WorkKind::kBackward;
}

// The details of a piece other than where and when.
std::string arguments_of(const Work& work) {
  if (is_of_round(work.kind)) {
    const std::string lag =
        work.kind == WorkKind::kMerge ? fmt::format(R"("lag":{:.4g},)", lag_of(work)) : "";
    return fmt::format(
        R"("round":{},"lane":"{}","chunk":{},"replicas":"{}",{}"update":{},"version":{})",
        work.index, lane_word(work.lane), work.chunk, replicas_text(work.replicas), lag,
        work.update, work.version);
  }
  std::string index;
  if (work.kind == WorkKind::kEvaluate) index = fmt::format(R"("batch":{},)", work.index);
  if (is_training(work.kind)) index = fmt::format(R"("microbatch":{},)", work.index);
  return fmt::format(R"({}"update":{},"version":{},"delay":{})", index, work.update, work.version,
                     work.delay);
}

}  // namespace

template <class... Arguments>
Status TraceFile::put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  constexpr size_t kPendingMax = size_t{1} << 20;
  pending_ += first_ ? "\n" : ",\n";
  first_ = false;
  fmt::format_to(std::back_inserter(pending_), format, std::forward<Arguments>(arguments)...);
  return pending_.size() < kPendingMax ? Status() : flush();
}

Status TraceFile::flush() {
  LEEWAY_TRY(file_.write(as_bytes(pending_)));
  pending_.clear();
  return {};
}

Result<TraceFile> TraceFile::create(const Path& path, const std::vector<WorkerId>& workers) {
  LEEWAY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TraceFile trace(std::move(file));
  const WorkerId* before = nullptr;
  for (const WorkerId& worker : workers) {
    const int64_t pid = worker.replica.value;
    const int64_t tid = worker.stage.value;
    if (before == nullptr || before->replica != worker.replica) {
      LEEWAY_TRY(trace.put(
          R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"replica {0}"}}}})", pid));
    }
    LEEWAY_TRY(trace.put(
        R"({{"name":"thread_name","ph":"M","pid":{0},"tid":{1},"args":{{"name":"stage {1}"}}}})",
        pid, tid));
    LEEWAY_TRY(trace.put(R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},)"
                         R"("args":{{"sort_index":{}}}}})",
                         pid, tid, tid));
    before = &worker;
  }
  return trace;
}

Status TraceFile::add(const WorkRecord& record) {
  const Work& work = record.work;
  const auto word = work_kind_word(work.kind);
  ++pieces_;
  LEEWAY_TRY(put(R"({{"name":"{} {}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)"
                 R"("args":{{{},"bytes":{}}}}})",
                 word, work.index, word, record.worker.replica.value, record.worker.stage.value,
                 microseconds(record.times.begin),
                 microseconds(record.times.end - record.times.begin), arguments_of(work),
                 record.bytes_sent));
  if (!is_training(work.kind)) return {};
  const auto way = std::pair(record.worker.replica.value, work.index);
  std::vector<Stop>& stops = on_their_way_[way];
  stops.push_back({record.worker, record.times.begin});
  const bool arrived = work.kind == WorkKind::kBackward && record.worker.stage.value == 0;
  if (!arrived) return {};
  LEEWAY_TRY(add_arrows(way, stops));
  on_their_way_.erase(way);
  return {};
}

Status TraceFile::add_arrows(const Way& way, std::vector<Stop>& stops) {
  std::stable_sort(stops.begin(), stops.end(),
                   [](const Stop& a, const Stop& b) { return a.begin < b.begin; });
  if (stops.size() < 2) return {};  // nothing to point to
  for (size_t i = 0; i < stops.size(); ++i) {
    const char* phase = i == 0 ? "s" : i + 1 == stops.size() ? "f" : "t";
    LEEWAY_TRY(put(R"({{"name":"microbatch","cat":"way","ph":"{}","bp":"e","id":"{}.{}",)"
                   R"("pid":{},"tid":{},"ts":{}}})",
                   phase, way.first, way.second, way.first, stops[i].worker.stage.value,
                   microseconds(stops[i].begin)));
  }
  return {};
}

Result<int64_t> TraceFile::finish() {
  for (auto& [way, stops] : on_their_way_) LEEWAY_TRY(add_arrows(way, stops));
  pending_ += "\n]}\n";
  LEEWAY_TRY(flush());
  LEEWAY_TRY(file_.commit());
  return pieces_;
}

}  // namespace leeway
