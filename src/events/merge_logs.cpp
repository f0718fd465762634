#include "events/merge_logs.h"

#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "events/log_cursor.h"

namespace leeway {
namespace {

Status check_named_once(const std::vector<Path>& logs) {
  std::set<Path> found;
  std::error_code code;
  for (const Path& log : logs) {
    if (found.insert(std::filesystem::weakly_canonical(log, code)).second) continue;
    return usage_error(log.string() + " is named twice; name the log of each process once");
  }
  return {};
}

Status check_coordinator(const std::vector<LogCursor>& cursors) {
  const LogCursor* coordinator = nullptr;
  for (const LogCursor& cursor : cursors) {
    if (!cursor.is_coordinators()) continue;
    if (coordinator != nullptr) {
      return usage_error("both " + coordinator->log().string() + " and " + cursor.log().string() +
                         " begin with `started`: they are of two runs; name the logs of one run");
    }
    coordinator = &cursor;
  }
  if (coordinator == nullptr) {
    return usage_error("none of the logs begins with `started`, as " +
                       cursors.front().log().string() +
                       " should; name the folder of the coordinator's process first");
  }
  if (coordinator == &cursors.front()) return {};
  return usage_error(coordinator->log().string() +
                     " is the log of the coordinator's process; name its folder first");
}

class LogMerger {
 public:
  LogMerger(std::vector<LogCursor> cursors, EventLog out, const LogMergeOptions& options)
      : cursors_(std::move(cursors)), out_(std::move(out)), options_(options) {}

  Result<MergedLog> merge() {
    for (size_t i = 0; i < cursors_.size(); ++i) enqueue(i);
    while (!queue_.empty()) {
      const size_t process = std::get<3>(queue_.top());
      queue_.pop();
      LogCursor& cursor = cursors_[process];
      LEEWAY_TRY(check(process));
      LEEWAY_TRY(write(cursor));
      const uint64_t before = cursor.bytes_read();
      LEEWAY_TRY(cursor.advance());
      if (cursor.bytes_read() != before) LEEWAY_TRY(show_progress());
      enqueue(process);
    }
    LEEWAY_TRY(out_.flush());
    for (const LogCursor& cursor : cursors_) warn_about(cursor);
    return std::move(merged_);
  }

 private:
  // Session, whether it is not the coordinator's first line of it, tick, process.
  using Key = std::tuple<int64_t, bool, int64_t, size_t>;

  static bool begins_session(const LogCursor& cursor) {
    const LineKind kind = cursor.line().facts.kind;
    return kind == LineKind::kStarted || kind == LineKind::kResumed;
  }

  void enqueue(size_t process) {
    const LogCursor& cursor = cursors_[process];
    if (cursor.at_end()) return;
    queue_.emplace(cursor.line().session, !begins_session(cursor), cursor.line().tick, process);
  }

  Status check(size_t process) {
    const LogCursor& cursor = cursors_[process];
    const TickedLine& line = cursor.line();
    if (begins_session(cursor)) {
      session_ = line.session;
      run_ = line.run;
      workers_.clear();
      filled_.clear();
    }
    if (line.facts.kind == LineKind::kJoined && !cursor.is_coordinators()) {
      filled_.insert(line.fills.begin(), line.fills.end());
      return check_joined(cursor);
    }
    if (line.facts.kind != LineKind::kWork || !line.facts.worker) return {};
    const WorkerId worker = *line.facts.worker;
    const auto [found, is_new] = workers_.emplace(worker, process);
    merged_.workers.insert(worker);
    if (found->second == process) return {};
    // What one that is gone wrote last may come after its successor has begun.
    if (filled_.contains(worker)) return {};
    return Error{"the work of replica " + std::to_string(worker.replica.value) + ", stage " +
                 std::to_string(worker.stage.value) + " in session " +
                 std::to_string(line.session) + " is in two logs, " +
                 cursors_[found->second].log().string() + " and " + cursor.place() +
                 "; name the log of each process once"};
  }

  // The coordinator's line of a session comes first: if it has not come yet, there is none.
  Status check_joined(const LogCursor& cursor) const {
    const TickedLine& line = cursor.line();
    const std::string coordinators = cursors_.front().log().string();
    if (line.session > session_) {
      return Error{cursor.place() + " joins session " + std::to_string(line.session) + ", but " +
                   coordinators + " has " + std::to_string(session_) +
                   " of them; name logs of one run, each as a whole"};
    }
    if (!run_ || !line.run || *run_ == *line.run) return {};
    return Error{cursor.place() + " joins run " + *line.run + ", but " + coordinators +
                 " is of run " + *run_ + "; name the logs of one run"};
  }

  Status write(const LogCursor& cursor) {
    text_.clear();
    append_without_tick(cursor.text(), cursor.line().facts, text_);
    if (options_.start && cursor.line().facts.kind == LineKind::kStarted) {
      LEEWAY_ASSIGN(Event started, Event::parse(text_));
      text_ = started.add("start", *options_.start).line();
    }
    ++merged_.lines;
    return out_.write_line(text_);
  }

  Status show_progress() const {
    if (!options_.progress) return {};
    uint64_t done = 0;
    uint64_t total = 0;
    for (const LogCursor& cursor : cursors_) {
      done += cursor.bytes_read();
      total += cursor.bytes();
    }
    return options_.progress(done, total);
  }

  void warn_about(const LogCursor& cursor) {
    const bool empty = cursor.line().session == 0;
    if (!empty && !cursor.cut()) return;
    merged_.warnings.push_back(
        cursor.log().string() +
        (empty ? " has no complete line" : " ends in an incomplete line, which is left out") +
        ": its process was killed, or still runs");
  }

  std::vector<LogCursor> cursors_;
  EventLog out_;
  const LogMergeOptions& options_;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> queue_;
  int64_t session_ = 0;  // the one that is being merged, and its run
  std::optional<std::string> run_;
  std::map<WorkerId, size_t> workers_;  // which log has their work of this session
  std::set<WorkerId> filled_;           // whose places two processes have had in it
  std::string text_;
  MergedLog merged_;
};

}  // namespace

Result<MergedLog> merge_logs(const std::vector<Path>& logs, const Path& out,
                             const LogMergeOptions& options) {
  LEEWAY_CHECK(!logs.empty(), "the caller names the coordinator's log");
  if (log_end(out)) return usage_error(out.string() + " exists; choose another name");
  LEEWAY_TRY(check_named_once(logs));
  std::vector<LogCursor> cursors;
  for (const Path& log : logs) {
    LEEWAY_ASSIGN(LogCursor cursor, LogCursor::open(log));
    cursors.push_back(std::move(cursor));
  }
  LEEWAY_TRY(check_coordinator(cursors));
  LEEWAY_ASSIGN(EventLog merged, EventLog::open(out, /*append=*/false, options.part_bytes));
  return LogMerger(std::move(cursors), std::move(merged), options).merge();
}

}  // namespace leeway
