// events.jsonl, the log of a run: written as it happens; console, report and replay read it.
// log_files.h says how a long one is kept in several files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "events/event.h"
#include "events/log_files.h"

namespace leeway {

// One owner, no lock. Lines collect in memory until flush() is called or there are many.
class EventLog {
 public:
  // append: continues after the last whole line of an earlier run and cuts off an incomplete line
  // that a crash left. Otherwise the log starts empty. `part_bytes`: the size at which the file
  // becomes a numbered part. Compressing one of this size holds up the run for less than 0.1 s.
  static constexpr int64_t kPartBytes = int64_t{16} << 20;
  static Result<EventLog> open(const Path& path, bool append, int64_t part_bytes = kPartBytes);
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&&) = delete;
  ~EventLog();  // flushes; call flush() first to see errors

  // A failed write (full disk) is reported once, by the call that hits it. The file then ends with
  // its last whole line; events wait in memory, and every flush() tries again. Those that find no
  // room there (64 MiB) are counted, and a `lost` event says how many.
  Status write(const Event& event);
  Status write_line(std::string_view line);  // of another log, without its newline
  Status flush();
  bool is_written() const { return pending_.empty(); }

 private:
  EventLog(Path path, int descriptor, int64_t part_bytes);
  Status start_next_part();

  Path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;  // bytes in the file, all of them whole lines
  int64_t part_bytes_;
  std::string pending_;
  bool failing_ = false;
  int64_t lost_ = 0;
};

// A line with this name is of one process of several, and not merged yet (log_cursor.h).
inline constexpr std::string_view kTickName = "tick";

// What to say about a line that cannot be read.
Error not_an_event(const LogLine& line, const Error& why);

struct EventHistory {
  std::vector<Event> events;
  bool cut = false;  // the last line was incomplete and is left out
};

// For short logs: every event takes several times the memory of its line. Anything that is not an
// event is an error that names the line, except an incomplete last line.
Result<EventHistory> read_events(const Path& path);

// The log's first event, which says how the run began; none if it cannot be read.
std::optional<Event> first_event(const Path& log);

// An error if the folder has the log of a process that is not the coordinator's: such a log begins
// with `joined` and has only the work of its own workers.
Status check_log_is_of_run(const Path& run_folder);

// The `resumed` events between two positions. Parses no other line: a log has millions.
Result<std::vector<Event>> read_resumes(const Path& log, const LogPosition& from,
                                        const LogPosition& end);

// Whether the session that started with `resumed` repeated what `earlier` records: its `update` is
// after the one that the session resumed from. Replicas that stopped at different updates resume
// from their own, `update_0`, `update_1` and so on. Events without `update` stay.
bool supersedes(const Event& resumed, const Event& earlier);

}  // namespace leeway
