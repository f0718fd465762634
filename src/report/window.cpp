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

std::optional<TimeSpan> span_of(const WorkSurvey& survey, const UpdateRange& range) {
  std::optional<TimeSpan> span;
  for (auto it = survey.updates.lower_bound(range.first);
       it != survey.updates.end() && it->first <= range.last; ++it) {
    const auto& own = it->second.own;
    if (!own || (survey.partial && !it->second.has_backwards)) continue;
    if (!span) span = own;
    span->begin = std::min(span->begin, own->begin);
    span->end = std::max(span->end, own->end);
  }
  if (!span) return std::nullopt;
  if (range.last >= survey.last_update && !survey.partial) span->end = survey.span.end;
  span->end = std::max(span->end, span->begin + Nanos{1});
  return span;
}

std::string name_of(const UpdateRange& range, const WorkSurvey& survey) {
  const int64_t first = std::max(range.first, survey.first_update);
  const int64_t last = std::min(range.last, survey.last_update);
  const int64_t all = std::max(survey.last_update, survey.made_by_any);
  if (first == last) return fmt::format("update {} of {}", first, all);
  return fmt::format("updates {} to {} of {}", first, last, all);
}

Result<Window> window_of(const WorkSurvey& survey, const UpdateRange& range) {
  if (const auto span = span_of(survey, range)) return Window{name_of(range, survey), *span};
  if (survey.partial && range.first <= survey.made_by_any) {
    return usage_error(fmt::format(
        "--updates {}:{} has no logged work; the log has that of updates {}; train with "
        "run.log=all to have all of it",
        range.first, range.last, survey.logged));
  }
  return usage_error(fmt::format("--updates {}:{} has no work; the run has updates {} to {}",
                                 range.first, range.last, survey.first_update, survey.last_update));
}

Result<Window> window_between(const WorkSurvey& survey, const WindowRequest& request) {
  constexpr double kNanos = 1e9;
  constexpr double kSecondsMax = 9e9;  // what 64 bits of nanoseconds hold
  TimeSpan span = survey.span;
  if (request.from_seconds) {
    span.begin.count = static_cast<int64_t>(std::min(*request.from_seconds, kSecondsMax) * kNanos);
  }
  if (request.to_seconds) {
    span.end.count = static_cast<int64_t>(std::min(*request.to_seconds, kSecondsMax) * kNanos);
  }
  const bool any = std::any_of(survey.updates.begin(), survey.updates.end(), [&](const auto& pair) {
    return pair.second.all.begin < span.end && pair.second.all.end > span.begin;
  });
  if (any) return Window{"a part of the run", span};
  return usage_error(fmt::format("no {}work from {} to {}; the run has work from {} to {}",
                                 survey.partial ? "logged " : "", time_text(span.begin),
                                 time_text(span.end), time_text(survey.span.begin),
                                 time_text(survey.span.end)));
}

// In the logged stretch at the run's middle, or the next one.
UpdateRange middle(const WorkSurvey& survey, int64_t length) {
  int64_t half = survey.first_update + (survey.last_update - survey.first_update) / 2;
  const auto found = std::find_if(survey.stretches.begin(), survey.stretches.end(),
                                  [&](const UpdateRange& stretch) { return stretch.last >= half; });
  const UpdateRange stretch = found == survey.stretches.end() ? survey.stretches.back() : *found;
  if (survey.partial) {
    half = std::min(std::max(half, stretch.first), std::max(stretch.first, stretch.last - length));
  }
  const std::set<int64_t>& disturbed = survey.disturbed;
  for (int64_t first = half; first + length <= stretch.last; ++first) {
    const auto next = disturbed.lower_bound(first);
    if (next == disturbed.end() || *next >= first + length) return {first, first + length - 1};
    first = *next;  // continue after it
  }
  if (!survey.partial) return {half, half + length - 1};
  return {half, std::min(half + length - 1, stretch.last)};
}

// The whole run, or the only stretch of it that is logged.
Window whole_of(const WorkSurvey& survey) {
  TimeSpan whole = survey.span;
  whole.end = std::max(whole.end, whole.begin + Nanos{1});
  if (!survey.partial) return {"the whole run", whole};
  const UpdateRange range = {survey.first_update, survey.last_update};
  return {name_of(range, survey), span_of(survey, range).value_or(whole)};
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

Result<std::vector<Window>> choose_windows(const WorkSurvey& survey, const WindowRequest& request) {
  if (request.from_seconds && request.to_seconds && *request.from_seconds >= *request.to_seconds) {
    return usage_error(
        fmt::format("--from {} is not before --to {}", *request.from_seconds, *request.to_seconds));
  }
  if (request.updates) {
    LEEWAY_ASSIGN(Window window, window_of(survey, *request.updates));
    return std::vector<Window>{std::move(window)};
  }
  if (request.from_seconds || request.to_seconds) {
    LEEWAY_ASSIGN(Window window, window_between(survey, request));
    return std::vector<Window>{std::move(window)};
  }
  int64_t updates = 0;  // with work
  for (const UpdateRange& stretch : survey.stretches) updates += stretch.last - stretch.first + 1;
  const auto pieces = static_cast<int64_t>(survey.longest_lane);
  const int64_t length =
      std::clamp<int64_t>(kStretch * updates / pieces, 1, std::max<int64_t>(updates, 1));
  const bool few = survey.longest_lane <= kWholeRunMax || updates <= 2 * length + 2;
  if (few && survey.stretches.size() <= 1) return std::vector<Window>{whole_of(survey)};
  auto start = window_of(survey, {survey.first_update, survey.first_update + length - 1});
  auto steady = window_of(survey, middle(survey, length));
  // In part of a run, the first updates may have no work that counts.
  if (!start.ok() || !steady.ok()) return std::vector<Window>{whole_of(survey)};
  if (!survey.partial) start->span.begin = survey.span.begin;
  return std::vector<Window>{std::move(*start), std::move(*steady)};
}

std::string describe(const Window& window) {
  return fmt::format("{} ({} to {})", window.name, time_text(window.span.begin),
                     time_text(window.span.end));
}

}  // namespace leeway
