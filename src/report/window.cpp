#include "report/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "report/text.h"

namespace leeway {
namespace {

constexpr size_t kWholeRunMax = 150;  // pieces per row that can still be told apart
constexpr int64_t kStretch = 50;  // pieces per row of each picture, wide enough for their numbers

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The evaluation of an update runs beside later updates, so it is not part of the update's time
// span. Neither is an owner's work for others, which happens whenever it is asked.
bool is_beside(const Work& work) {
  return is_evaluation(work) || work.kind == WorkKind::kReduce || work.kind == WorkKind::kRepeat;
}

std::optional<TimeSpan> span_of(const WorkHistory& history, const UpdateRange& range) {
  std::optional<TimeSpan> span;
  for (const WorkerHistory& lane : history.lanes) {
    for (const WorkRecord& record : lane.records) {
      if (is_beside(record.work)) continue;
      if (record.work.update < range.first || record.work.update > range.last) continue;
      if (!span) span = {record.times.begin, record.times.end};
      span->begin = std::min(span->begin, record.times.begin);
      span->end = std::max(span->end, record.times.end);
    }
  }
  if (!span) return std::nullopt;
  if (range.last >= history.last_update) span->end = history.span.end;
  span->end = std::max(span->end, span->begin + Nanos{1});
  return span;
}

std::string name_of(const UpdateRange& range, const WorkHistory& history) {
  const int64_t first = std::max(range.first, history.first_update);
  const int64_t last = std::min(range.last, history.last_update);
  if (first == last) return fmt::format("update {} of {}", first, history.last_update);
  return fmt::format("updates {} to {} of {}", first, last, history.last_update);
}

Result<Window> window_of(const WorkHistory& history, const UpdateRange& range) {
  if (const auto span = span_of(history, range)) return Window{name_of(range, history), *span};
  return usage_error(fmt::format("--updates {}:{} has no work; the run has updates {} to {}",
                                 range.first, range.last, history.first_update,
                                 history.last_update));
}

Result<Window> window_between(const WorkHistory& history, const WindowRequest& request) {
  constexpr double kNanos = 1e9;
  constexpr double kSecondsMax = 9e9;  // what 64 bits of nanoseconds hold
  TimeSpan span = history.span;
  if (request.from_seconds) {
    span.begin.count = static_cast<int64_t>(std::min(*request.from_seconds, kSecondsMax) * kNanos);
  }
  if (request.to_seconds) {
    span.end.count = static_cast<int64_t>(std::min(*request.to_seconds, kSecondsMax) * kNanos);
  }
  const bool any =
      std::any_of(history.lanes.begin(), history.lanes.end(), [&](const WorkerHistory& lane) {
        return std::any_of(lane.records.begin(), lane.records.end(), [&](const WorkRecord& record) {
          return record.times.begin < span.end && record.times.end > span.begin;
        });
      });
  if (any) return Window{"a part of the run", span};
  return usage_error(fmt::format("no work from {} to {}; the run has work from {} to {}",
                                 time_text(span.begin), time_text(span.end),
                                 time_text(history.span.begin), time_text(history.span.end)));
}

// Pieces in the fullest row; pieces of rounds are short and do not count.
size_t longest_lane(const WorkHistory& history) {
  size_t longest = 1;
  for (const WorkerHistory& lane : history.lanes) {
    const auto pieces =
        std::count_if(lane.records.begin(), lane.records.end(),
                      [](const WorkRecord& record) { return !is_of_round(record.work.kind); });
    longest = std::max(longest, static_cast<size_t>(pieces));
  }
  return longest;
}

// Updates with work other than training, or without a full pipeline.
std::set<int64_t> disturbed_updates(const WorkHistory& history) {
  std::set<int64_t> found;
  for (const int64_t update : history.flushes) found.insert({update, update + 1});  // drains, fills
  for (const WorkerHistory& lane : history.lanes) {
    int64_t running = 0;
    for (const WorkRecord& record : lane.records) {
      if (is_evaluation(record.work)) found.insert({running, running + 1});
      running = std::max(running, record.work.update);
    }
  }
  return found;
}

UpdateRange middle(const WorkHistory& history, int64_t length) {
  const int64_t half = history.first_update + (history.last_update - history.first_update) / 2;
  const std::set<int64_t> disturbed = disturbed_updates(history);
  for (int64_t first = half; first + length <= history.last_update; ++first) {
    const auto next = disturbed.lower_bound(first);
    if (next == disturbed.end() || *next >= first + length) return {first, first + length - 1};
    first = *next;  // continue after it
  }
  return {half, half + length - 1};
}

}  // namespace

Result<UpdateRange> parse_update_range(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view before = text.substr(0, colon);
  const std::string_view after = colon == std::string_view::npos ? before : text.substr(colon + 1);
  UpdateRange range{1, std::numeric_limits<int64_t>::max()};
  const bool open = colon != std::string_view::npos && !(before.empty() && after.empty());
  const auto first = open && before.empty() ? std::optional(range.first) : whole_number(before);
  const auto last = open && after.empty() ? std::optional(range.last) : whole_number(after);
  if (!first || !last || *first < 1 || *last < *first) {
    return usage_error(
        fmt::format("--updates: got {}; give a first and a last update, counted from 1, such as "
                    "3:7",
                    text));
  }
  return UpdateRange{*first, *last};
}

Result<std::vector<Window>> choose_windows(const WorkHistory& history,
                                           const WindowRequest& request) {
  if (request.from_seconds && request.to_seconds && *request.from_seconds >= *request.to_seconds) {
    return usage_error(
        fmt::format("--from {} is not before --to {}", *request.from_seconds, *request.to_seconds));
  }
  if (request.updates) {
    LEEWAY_ASSIGN(Window window, window_of(history, *request.updates));
    return std::vector<Window>{std::move(window)};
  }
  if (request.from_seconds || request.to_seconds) {
    LEEWAY_ASSIGN(Window window, window_between(history, request));
    return std::vector<Window>{std::move(window)};
  }
  const int64_t updates = history.last_update - history.first_update + 1;
  const auto pieces = static_cast<int64_t>(longest_lane(history));
  const int64_t length = std::clamp<int64_t>(kStretch * updates / pieces, 1, updates);
  TimeSpan whole = history.span;
  whole.end = std::max(whole.end, whole.begin + Nanos{1});
  const std::vector<Window> all = {{"the whole run", whole}};
  if (longest_lane(history) <= kWholeRunMax || updates <= 2 * length + 2) return all;
  auto start = window_of(history, {history.first_update, history.first_update + length - 1});
  auto steady = window_of(history, middle(history, length));
  // In part of a run, the first updates may have no work that counts.
  if (!start.ok() || !steady.ok()) return all;
  start->span.begin = history.span.begin;
  return std::vector<Window>{std::move(*start), std::move(*steady)};
}

std::string describe(const Window& window) {
  return fmt::format("{} ({} to {})", window.name, time_text(window.span.begin),
                     time_text(window.span.end));
}

}  // namespace leeway
