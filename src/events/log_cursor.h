// The log of one process, line by line, with the session and the tick of each line. Only a few MB
// of it are in memory at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/line_facts.h"
#include "events/log_files.h"

namespace leeway {

// Every process counts ticks: each line is one more than the line before it, and a message from
// another process moves the count up to the sender's. A line names its tick only where the count
// has jumped. The count starts again in every session, with tick 1 unless the line says otherwise.
struct TickedLine {
  int64_t session = 0;  // counted from 1
  int64_t tick = 0;
  LineFacts facts = {};
  std::optional<std::string> run = {};  // of the first line of a session, if it names the run
  // Of a `joined` line: workers whose places another process had before, in the same session.
  std::vector<WorkerId> fills = {};
};

class LogCursor {
 public:
  // Stands on the first line. Reads what the log has now, not what is added later.
  static Result<LogCursor> open(const Path& log);

  const Path& log() const { return log_; }
  bool at_end() const { return next_ == lines_.size(); }
  // Whether the log begins with `started`; other processes' begin with `joined`.
  bool is_coordinators() const { return coordinators_; }

  // Not at the end:
  const TickedLine& line() const { return line_; }
  std::string_view text() const;
  std::string place() const;  // "events.jsonl:12"
  Status advance();

  bool cut() const { return cut_; }  // at the end: an incomplete last line was left out
  // About how many bytes, unpacked, are read and in the log: for a progress bar.
  uint64_t bytes_read() const;
  uint64_t bytes() const;

 private:
  struct Span {
    size_t begin = 0;
    size_t size = 0;
    size_t file = 0;     // in files_
    int64_t number = 0;  // in that file
  };

  LogCursor(Path log, LogPosition end) : log_(std::move(log)), end_(end) {}
  Status load();
  Status take();
  static std::vector<WorkerId> workers_in(const std::string& text);
  Status begin_session();
  Error error_here(std::string_view what) const;

  Path log_;
  LogPosition end_;
  LogPosition position_ = {};
  bool more_ = true;  // after what is loaded
  bool cut_ = false;
  bool coordinators_ = false;
  TickedLine line_ = {};

  std::string loaded_ = {};
  std::vector<Span> lines_ = {};
  std::vector<std::string> files_ = {};
  size_t next_ = 0;  // the line that it stands on
};

}  // namespace leeway
