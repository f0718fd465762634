// events.jsonl, the diary of a run: written as it happens, read by console, report and replay.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/event.h"

namespace leeway {

// One owner, no lock. Lines gather in memory until flush(), or until there are many.
class EventLog {
 public:
  // append: goes on after the last whole line of an earlier run; half a line at the end, left by
  // a crash, is taken off. Otherwise the file starts empty.
  static Result<EventLog> open(const Path& path, bool append);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  ~EventLog();  // flushes; who wants to know about a failure calls flush() before

  // A failed write (full disk) is reported once, by whichever call meets it; the file then ends
  // with its last whole line, and later events are dropped without a word. Whether the run goes
  // on is the caller's decision.
  Status write(const Event& event);
  Status flush();
  bool failed() const { return failed_; }

 private:
  EventLog(Path path, int descriptor, int64_t size);

  Path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;  // bytes in the file, all of them whole lines
  std::string pending_;
  bool failed_ = false;
};

struct EventHistory {
  std::vector<Event> events;
  bool cut = false;  // the last line was half a line and is left out
};

// Garbage anywhere but in an unfinished last line is an error that names the line.
Result<EventHistory> read_events(const Path& path);

// Whether the session that began with `resumed` did again what this line written before it says:
// that of an `update` after the one where it went on. Replicas that were stopped apart go on from
// their own, `update_0`, `update_1` and so on. Lines without `update` stay.
bool supersedes(const Event& resumed, const Event& earlier);

// The lines that no later session did again.
std::vector<Event> drop_superseded(std::vector<Event> events);

}  // namespace leeway
