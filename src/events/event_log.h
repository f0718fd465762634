// events.jsonl, the log of a run: written as it happens; console, report and replay read it.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/event.h"

namespace leeway {

// One owner, no lock. Lines collect in memory until flush() is called or there are many.
class EventLog {
 public:
  // append: continues after the last whole line of an earlier run and cuts off an incomplete line
  // that a crash left. Otherwise the file starts empty.
  static Result<EventLog> open(const Path& path, bool append);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  ~EventLog();  // flushes; call flush() first to see errors

  // A failed write (full disk) is reported once, by the call that hits it. The file then ends with
  // its last whole line, and later events are dropped silently. The caller decides whether the run
  // continues.
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
  bool cut = false;  // the last line was incomplete and is left out
};

// Anything that is not an event is an error that names the line, except an incomplete last line.
Result<EventHistory> read_events(const Path& path);

// Whether the session that started with `resumed` repeated what `earlier` records: its `update` is
// after the one that the session resumed from. Replicas that stopped at different updates resume
// from their own, `update_0`, `update_1` and so on. Events without `update` stay.
bool supersedes(const Event& resumed, const Event& earlier);

// The events that no later session repeated.
std::vector<Event> drop_superseded(std::vector<Event> events);

}  // namespace leeway
