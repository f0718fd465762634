#include "events/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace leeway {
namespace {

constexpr size_t kPendingBytesMax = size_t{1} << 16;

// The length of the file up to and including its last line end.
Result<int64_t> whole_lines_size(const Path& path) {
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const auto last = std::find(bytes.rbegin(), bytes.rend(), std::byte{'\n'});
  return static_cast<int64_t>(bytes.rend() - last);
}

}  // namespace

EventLog::EventLog(Path path, int descriptor, int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

EventLog::EventLog(EventLog&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      pending_(std::move(other.pending_)),
      failed_(other.failed_) {}

EventLog::~EventLog() {
  if (descriptor_ < 0) return;
  static_cast<void>(flush());
  ::close(descriptor_);
}

Result<EventLog> EventLog::open(const Path& path, bool append) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC);
  const int descriptor = ::open(path.c_str(), flags, 0644);
  if (descriptor < 0) return file_error("write", path, errno);
  EventLog log(path, descriptor, 0);  // closes the descriptor on every return
  if (!append) return log;
  LEEWAY_ASSIGN(log.size_, whole_lines_size(path));
  if (::ftruncate(descriptor, log.size_) != 0) return file_error("write", path, errno);
  return log;
}

Status EventLog::write(const Event& event) {
  if (failed_) return {};
  pending_.append(event.line()).push_back('\n');
  return pending_.size() < kPendingBytesMax ? Status() : flush();
}

Status EventLog::flush() {
  if (failed_) return {};
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      failed_ = true;
      const Error error = file_error("write", path_, errno);
      // Removes a partly written line, which would read as garbage. If this fails too, the reader
      // ignores an incomplete last line.
      if (::ftruncate(descriptor_, size_) != 0) return error;
      return error;
    }
    done += static_cast<size_t>(wrote);
  }
  size_ += static_cast<int64_t>(done);
  pending_.clear();
  return {};
}

Result<EventHistory> read_events(const Path& path) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  EventHistory history;
  size_t line_number = 1;
  for (size_t begin = 0; begin < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    auto event = Event::parse(std::string_view(text).substr(begin, end - begin));
    const bool unfinished = end == text.size();
    if (event.ok()) {
      history.events.push_back(std::move(*event));
    } else if (unfinished) {
      history.cut = true;
    } else {
      return Error{path.string() + ":" + std::to_string(line_number) + " is not an event (" +
                   event.error().message + "); remove the line to read the rest"};
    }
    begin = end + 1;
  }
  return history;
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

std::vector<Event> drop_superseded(std::vector<Event> events) {
  std::vector<Event> kept;
  for (auto& event : events) {
    if (event.kind() == "resumed") {
      std::erase_if(kept, [&](const Event& earlier) { return supersedes(event, earlier); });
    }
    kept.push_back(std::move(event));
  }
  return kept;
}

}  // namespace leeway
