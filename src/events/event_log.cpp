#include "events/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/names.h"

namespace leeway {
namespace {

constexpr size_t kPendingBytesMax = size_t{1} << 16;
constexpr size_t kWaitingBytesMax = size_t{64} << 20;  // while the disk is full

// The length of the file up to and including its last line end.
Result<int64_t> whole_lines_size(const Path& path) {
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const auto last = std::find(bytes.rbegin(), bytes.rend(), std::byte{'\n'});
  return static_cast<int64_t>(bytes.rend() - last);
}

int open_to_append(const Path& path, int flags) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | flags, 0644);
}

}  // namespace

EventLog::EventLog(Path path, int descriptor, int64_t part_bytes)
    : path_(std::move(path)), descriptor_(descriptor), part_bytes_(part_bytes) {}

EventLog::EventLog(EventLog&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      part_bytes_(other.part_bytes_),
      pending_(std::move(other.pending_)),
      failing_(other.failing_),
      lost_(other.lost_) {}

EventLog::~EventLog() {
  if (descriptor_ < 0) return;
  static_cast<void>(flush());
  ::close(descriptor_);
}

Result<EventLog> EventLog::open(const Path& path, bool append, int64_t part_bytes) {
  const int descriptor = open_to_append(path, append ? 0 : O_TRUNC);
  if (descriptor < 0) return file_error("write", path, errno);
  EventLog log(path, descriptor, part_bytes);  // closes the descriptor on every return
  if (!append) remove_parts(path);
  compress_parts(path);  // that a crash kept from being compressed
  if (!append) return log;
  LEEWAY_ASSIGN(log.size_, whole_lines_size(path));
  if (::ftruncate(descriptor, log.size_) != 0) return file_error("write", path, errno);
  return log;
}

Status EventLog::write(const Event& event) { return write_line(event.line()); }

Status EventLog::write_line(std::string_view line) {
  if (pending_.size() >= kWaitingBytesMax) {
    ++lost_;
    return {};
  }
  pending_.append(line).push_back('\n');
  return failing_ || pending_.size() < kPendingBytesMax ? Status() : flush();
}

Status EventLog::flush() {
  if (lost_ > 0) {
    pending_.append(Event("lost").add("events", lost_).line()).push_back('\n');
    lost_ = 0;
  }
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const Error error = file_error("write", path_, errno);
      // Removes a partly written line, which would read as garbage. If this fails too, the rest of
      // the line follows when there is room.
      if (::ftruncate(descriptor_, size_) != 0) {
        size_ += static_cast<int64_t>(done);
        pending_.erase(0, done);
      }
      return std::exchange(failing_, true) ? Status() : Status(error);
    }
    done += static_cast<size_t>(wrote);
  }
  size_ += static_cast<int64_t>(done);
  pending_.clear();
  failing_ = false;
  return size_ < part_bytes_ ? Status() : start_next_part();
}

// If it cannot, the file grows on: a log in one large file is better than none.
Status EventLog::start_next_part() {
  const Result<Path> part = close_part(path_);
  const int next = part.ok() ? open_to_append(path_, O_EXCL) : -1;
  if (next < 0) {
    if (part.ok()) static_cast<void>(::rename(part->c_str(), path_.c_str()));
    part_bytes_ *= 2;
    return {};
  }
  ::close(std::exchange(descriptor_, next));
  size_ = 0;
  compress_parts(path_);
  return {};
}

Error not_an_event(const LogLine& line, const Error& why) {
  return Error{line.place() + " is not an event (" + why.message +
               "); remove the line to read the rest"};
}

Result<EventHistory> read_events(const Path& path) {
  if (!log_end(path)) return file_error("read", path, ENOENT);
  EventHistory history;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    auto event = Event::parse(line.text);
    if (!event.ok()) return not_an_event(line, event.error());
    history.events.push_back(std::move(*event));
    return true;
  };
  LEEWAY_ASSIGN(const LogRead read, read_log(path, {}, {}, use));
  if (read.rest.empty()) return history;
  auto last = Event::parse(read.rest);
  history.cut = !last.ok();
  if (last.ok()) history.events.push_back(std::move(*last));
  return history;
}

std::optional<Event> first_event(const Path& log) {
  std::optional<Event> first;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    auto event = Event::parse(line.text);
    if (event.ok()) first = std::move(*event);
    return false;
  };
  static_cast<void>(read_log(log, {}, {}, use));
  return first;
}

Status check_log_is_of_run(const Path& run_folder) {
  const std::optional<Event> first = first_event(run_folder / "events.jsonl");
  if (!first || first->kind() != "joined") return {};
  return usage_error(run_folder.string() +
                     " has the log of one process of a run; merge it with that of the "
                     "coordinator's process, RUN: leeway merge RUN " +
                     shell_word(run_folder.string()) + " --out MERGED");
}

Result<std::vector<Event>> read_resumes(const Path& log, const LogPosition& from,
                                        const LogPosition& end) {
  std::vector<Event> resumes;
  const auto look = [&](const LogLine& line) -> Result<bool> {
    if (line.text.substr(0, 24).find("resumed") == line.text.npos)
      return true;  // the kind is first
    auto event = Event::parse(line.text);
    if (event.ok() && event->kind() == "resumed") resumes.push_back(std::move(*event));
    return true;
  };
  LEEWAY_TRY(read_log(log, from, end, look));
  return resumes;
}

bool supersedes(const Event& resumed, const Event& earlier) {
  const auto update = earlier.integer("update");
  auto last_kept = resumed.integer("update");
  if (!update || !last_kept) return false;
  if (const auto replica = earlier.integer("replica")) {
    last_kept = resumed.integer("update_" + std::to_string(*replica)).value_or(*last_kept);
  }
  return *update > *last_kept;
}

}  // namespace leeway
