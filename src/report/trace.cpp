#include "report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace leeway {
namespace {

constexpr size_t kPendingMax = size_t{1} << 20;

// Writes events to a file, one per line, in batches: a long run has millions.
class TraceFile {
 public:
  static Result<TraceFile> create(const Path& path) {
    LEEWAY_ASSIGN(AtomicFile file, AtomicFile::create(path));
    return TraceFile(std::move(file));
  }

  template <class... Arguments>
  Status add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    pending_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(pending_), format, std::forward<Arguments>(arguments)...);
    return pending_.size() < kPendingMax ? Status() : flush();
  }

  Status finish() {
    pending_ += "\n]}\n";
    LEEWAY_TRY(flush());
    return file_.commit();
  }

 private:
  explicit TraceFile(AtomicFile file) : file_(std::move(file)) {}

  Status flush() {
    LEEWAY_TRY(file_.write(as_bytes(pending_)));
    pending_.clear();
    return {};
  }

  AtomicFile file_;
  std::string pending_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
  bool first_ = true;
};

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
        work.kind == WorkKind::kMerge ? fmt::format(R"("lag":{},)", work.delay) : "";
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

Status add_names(TraceFile& file, const WorkHistory& history) {
  const WorkerHistory* before = nullptr;
  for (const WorkerHistory& lane : history.lanes) {
    const int64_t pid = lane.worker.replica.value;
    const int64_t tid = lane.worker.stage.value;
    if (before == nullptr || before->worker.replica != lane.worker.replica) {
      LEEWAY_TRY(file.add(
          R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"replica {0}"}}}})", pid));
    }
    LEEWAY_TRY(file.add(
        R"({{"name":"thread_name","ph":"M","pid":{0},"tid":{1},"args":{{"name":"stage {1}"}}}})",
        pid, tid));
    LEEWAY_TRY(file.add(R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},)"
                        R"("args":{{"sort_index":{}}}}})",
                        pid, tid, tid));
    before = &lane;
  }
  return {};
}

Status add_work(TraceFile& file, const WorkRecord& record) {
  const Work& work = record.work;
  const auto word = work_kind_word(work.kind);
  return file.add(R"({{"name":"{} {}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)"
                  R"("args":{{{},"bytes":{}}}}})",
                  word, work.index, word, record.worker.replica.value, record.worker.stage.value,
                  microseconds(record.times.begin),
                  microseconds(record.times.end - record.times.begin), arguments_of(work),
                  record.bytes_sent);
}

// One step on a microbatch's path: a forward or a backward.
struct Stop {
  int64_t microbatch = 0;
  WorkerId worker;
  Nanos begin;
};

// The steps of one replica, grouped by microbatch, in order of time.
void sort_stops(std::vector<Stop>& stops) {
  std::sort(stops.begin(), stops.end(), [](const Stop& a, const Stop& b) {
    return std::tie(a.microbatch, a.begin) < std::tie(b.microbatch, b.begin);
  });
}

Status add_arrows(TraceFile& file, const std::vector<Stop>& stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    const Stop& stop = stops[i];
    const bool first = i == 0 || stops[i - 1].microbatch != stop.microbatch;
    const bool last = i + 1 == stops.size() || stops[i + 1].microbatch != stop.microbatch;
    if (first && last) continue;  // nothing to point to
    const char* phase = first ? "s" : last ? "f" : "t";
    LEEWAY_TRY(file.add(R"({{"name":"microbatch","cat":"way","ph":"{}","bp":"e","id":"{}.{}",)"
                        R"("pid":{},"tid":{},"ts":{}}})",
                        phase, stop.worker.replica.value, stop.microbatch,
                        stop.worker.replica.value, stop.worker.stage.value,
                        microseconds(stop.begin)));
  }
  return {};
}

}  // namespace

Result<int64_t> write_trace(const Path& path, const WorkHistory& history,
                            const std::optional<TimeSpan>& window) {
  LEEWAY_ASSIGN(TraceFile file, TraceFile::create(path));
  LEEWAY_TRY(add_names(file, history));
  int64_t written = 0;
  std::vector<Stop> stops;
  for (size_t i = 0; i < history.lanes.size(); ++i) {
    const WorkerHistory& lane = history.lanes[i];
    for (const WorkRecord& record : lane.records) {
      const WorkTimes& times = record.times;
      if (window && (times.begin >= window->end || times.end < window->begin)) continue;
      LEEWAY_TRY(add_work(file, record));
      ++written;
      if (is_training(record.work.kind)) {
        stops.push_back({record.work.index, record.worker, times.begin});
      }
    }
    const bool replica_ends =
        i + 1 == history.lanes.size() || history.lanes[i + 1].worker.replica != lane.worker.replica;
    if (!replica_ends) continue;
    sort_stops(stops);
    LEEWAY_TRY(add_arrows(file, stops));
    stops.clear();
  }
  LEEWAY_TRY(file.finish());
  return written;
}

}  // namespace leeway
