#include "events/log_cursor.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "events/event_log.h"

namespace leeway {
namespace {

// Reading on within a compressed part unpacks it from its start, so a batch must not be small.
constexpr size_t kBatchBytes = size_t{2} << 20;
constexpr int64_t kTickMax = int64_t{1} << 62;

// A part that is closed has about as many bytes as a part may have.
uint64_t bytes_before(const LogPosition& position) {
  return static_cast<uint64_t>(position.part - 1) * EventLog::kPartBytes + position.offset;
}

}  // namespace

Result<LogCursor> LogCursor::open(const Path& log) {
  const std::optional<LogPosition> end = log_end(log);
  if (!end) {
    return usage_error("there is no log " + log.string() +
                       "; name the folder that a process of the run wrote");
  }
  LogCursor cursor(log, *end);
  LEEWAY_TRY(cursor.load());
  if (cursor.at_end()) return cursor;
  const auto first = facts_of(cursor.text());
  const LineKind kind = first.ok() ? first->kind : LineKind::kOther;
  cursor.coordinators_ = kind == LineKind::kStarted;
  if (first.ok() && kind != LineKind::kStarted && kind != LineKind::kJoined) {
    return cursor.error_here(
        "is neither `started` nor `joined`, with which the log of a process begins; restore the "
        "whole log");
  }
  LEEWAY_TRY(cursor.take());
  return cursor;
}

std::string_view LogCursor::text() const {
  const Span& span = lines_[next_];
  return std::string_view(loaded_).substr(span.begin, span.size);
}

std::string LogCursor::place() const {
  const Span& span = lines_[next_];
  return files_[span.file] + ":" + std::to_string(span.number);
}

Error LogCursor::error_here(std::string_view what) const {
  return Error{place() + " " + std::string(what)};
}

Status LogCursor::advance() {
  ++next_;
  if (at_end()) LEEWAY_TRY(load());
  return at_end() ? Status() : take();
}

Status LogCursor::load() {
  loaded_.clear();
  lines_.clear();
  files_.clear();
  next_ = 0;
  if (!more_) return {};
  more_ = false;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    if (files_.empty() || files_.back() != line.file) files_.push_back(line.file);
    lines_.push_back({loaded_.size(), line.text.size(), files_.size() - 1, line.number});
    loaded_ += line.text;
    more_ = loaded_.size() >= kBatchBytes;
    return !more_;
  };
  LEEWAY_ASSIGN(const LogRead read, read_log(log_, position_, end_, use));
  position_ = read.end;
  cut_ = !read.rest.empty();
  return {};
}

Status LogCursor::take() {
  const auto facts = facts_of(text());
  if (!facts.ok()) {
    return error_here("is not an event (" + facts.error().message +
                      "); remove the line to merge the rest");
  }
  const int64_t session_before = line_.session;
  const int64_t tick_before = line_.tick;
  line_.facts = *facts;
  line_.run.reset();
  line_.fills.clear();
  // In the coordinator's log it is a line of another one, which was merged before.
  const bool joins = facts->kind == LineKind::kJoined && (!coordinators_ || line_.session == 0);
  const bool begins =
      facts->kind == LineKind::kStarted || facts->kind == LineKind::kResumed || joins;
  if (begins) LEEWAY_TRY(begin_session());
  line_.tick = facts->tick.value_or(begins ? 1 : tick_before + 1);
  const int64_t last = line_.session == session_before ? tick_before : 0;
  if (line_.tick > last && line_.tick <= kTickMax) return {};
  return error_here("has tick " + std::to_string(line_.tick) + " after tick " +
                    std::to_string(last) +
                    ", but ticks ascend within a session: the log is damaged; restore it");
}

// "0.2 1.0": replica and stage of each.
std::vector<WorkerId> LogCursor::workers_in(const std::string& text) {
  std::vector<WorkerId> workers;
  std::istringstream words(text);
  int64_t replica = 0;
  int64_t stage = 0;
  char dot = 0;
  while (words >> replica >> dot >> stage) {
    workers.push_back({.replica = {replica}, .stage = {stage}});
  }
  return workers;
}

Status LogCursor::begin_session() {
  const LineKind kind = line_.facts.kind;
  if (!coordinators_ && kind != LineKind::kJoined) {
    return error_here(
        "begins a session of the coordinator, but the log begins with `joined`: it has lines of "
        "two processes; restore it");
  }
  LEEWAY_ASSIGN(const Event event, Event::parse(text()));
  line_.run = event.text("run");
  if (coordinators_) {
    if (kind == LineKind::kStarted && line_.session > 0) {
      return error_here("starts a second run, but a log has only one: it is damaged; restore it");
    }
    ++line_.session;
    return {};
  }
  const int64_t session = event.integer("session").value_or(0);
  if (session < 1) return error_here("does not say which session it joins; restore the log");
  if (session < line_.session) {
    return error_here("joins session " + std::to_string(session) + " after session " +
                      std::to_string(line_.session) + ": the log is damaged; restore it");
  }
  line_.session = session;
  line_.fills = workers_in(event.text("fills").value_or(""));
  return {};
}

uint64_t LogCursor::bytes_read() const { return std::min(bytes_before(position_), bytes()); }
uint64_t LogCursor::bytes() const { return bytes_before(end_); }

}  // namespace leeway
