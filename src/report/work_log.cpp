#include "report/work_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "events/event_log.h"

namespace leeway {
namespace {

// A value of a line that need not be parsed for it: a log has millions.
std::optional<int64_t> number_in(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == line.npos) return std::nullopt;
  int64_t value = 0;
  const char* const begin = line.data() + at + name.size();
  const auto [end, error] = std::from_chars(begin, line.data() + line.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

bool touches(const WorkTimes& times, const std::vector<TimeSpan>& spans) {
  return spans.empty() || std::any_of(spans.begin(), spans.end(), [&](const TimeSpan& span) {
           return times.begin < span.end && times.end >= span.begin;
         });
}

// Whether a piece is surely outside the spans.
bool is_elsewhere(std::string_view line, const std::vector<TimeSpan>& spans) {
  if (!line.starts_with(R"({"event":"work")")) return false;
  // The update before a stretch and the pieces around it decide which stretch the rest belongs to.
  if (line.find(R"("kind":"update")") != line.npos) return false;
  const auto begin = number_in(line, R"("begin":)");
  const auto end = number_in(line, R"("end":)");
  return begin && end && !touches({Nanos{*begin}, Nanos{*end}}, spans);
}

}  // namespace

Result<WorkLog> WorkLog::open(const Path& run_folder) {
  LEEWAY_TRY(check_is_run(run_folder));
  WorkLog log(run_folder / "events.jsonl");
  const std::optional<LogPosition> end = log_end(log.log_);
  if (!end) {
    return Error{
        fmt::format("{} has no events.jsonl, so its work is unknown; train again to have something "
                    "to draw",
                    run_folder.string())};
  }
  log.end_ = *end;
  LEEWAY_ASSIGN(log.resumes_, read_resumes(log.log_, {}, log.end_));
  return log;
}

Result<WorkLog::Seen> WorkLog::read(const std::vector<TimeSpan>& spans, const Use& use,
                                    const std::function<void(const Event&)>& other) const {
  Seen seen;
  LoggedStretches stretches;
  auto next = resumes_.begin();
  const auto take = [&](const LogLine& line) -> Result<bool> {
    if (!spans.empty() && is_elsewhere(line.text, spans)) return true;
    const auto event = Event::parse(line.text);
    if (!event.ok()) return not_an_event(line, event.error());
    seen.has_ticks = seen.has_ticks || event->find(kTickName) != nullptr;
    if (event->kind() == "resumed" && next != resumes_.end()) ++next;
    const bool is_work = event->kind() == kWorkEvent;
    const auto record = is_work ? checked_work(*event) : Result<WorkRecord>(WorkRecord{});
    if (!record.ok()) {
      return Error{fmt::format("{}: {}; remove the line to draw the rest", line.place(),
                               record.error().message)};
    }
    const bool repeated = std::any_of(
        next, resumes_.end(), [&](const Event& resumed) { return supersedes(resumed, *event); });
    if (repeated) return true;
    stretches.note(*event);
    if (!is_work) {
      if (other) other(*event);
      return true;
    }
    const auto stretch = stretches.place(*record);
    if (touches(record->times, spans)) LEEWAY_TRY(use(*record, stretch));
    return true;
  };
  LEEWAY_ASSIGN(const LogRead read, read_log(log_, {}, end_, take));
  seen.cut = !read.rest.empty();
  return seen;
}

Status WorkLog::each(const std::vector<TimeSpan>& spans, const Use& use) const {
  LEEWAY_TRY(read(spans, use, {}));
  return {};
}

Result<WorkSurvey> WorkLog::survey() const {
  WorkSurveyor surveyor;
  LogCoverage coverage;
  const auto work = [&](const WorkRecord& record, std::optional<size_t> stretch) -> Status {
    surveyor.add(record, stretch);
    return {};
  };
  const auto other = [&](const Event& event) {
    coverage.note(event);
    const auto update = event.integer("update");
    if (!update || *update < 0 || *update > kCountMax) return;
    if (event.kind() == "resumed") surveyor.add_flush(*update);
    if (event.kind() == "update") surveyor.updated(*update);
  };
  LEEWAY_ASSIGN(const Seen seen, read({}, work, other));
  if (surveyor.empty()) {
    return Error{fmt::format(
        "{} records no work: an older version wrote it, or the run ended before its first "
        "microbatch; train again to have something to draw",
        log_.string())};
  }
  const bool partial = !coverage.covers(surveyor.made());
  WorkSurvey survey = std::move(surveyor).finish(partial);
  survey.cut = seen.cut;
  survey.has_ticks = seen.has_ticks;
  if (survey.partial) survey.logged = coverage.text(survey.made_by_any);
  if (!survey.updates.empty()) return survey;
  return Error{fmt::format(
      "{} has no work on microbatches, because the run logged none; train with run.log=auto or "
      "run.log=all to have something to draw",
      log_.string())};
}

Result<WorkHistory> WorkLog::history(const WorkSurvey& survey,
                                     const std::vector<TimeSpan>& spans) const {
  WorkHistoryBuilder builder;
  for (const auto& [worker, covered] : survey.workers) builder.add_worker(worker, covered);
  const auto work = [&](const WorkRecord& record, std::optional<size_t> stretch) -> Status {
    if (stretch) builder.add(record, *stretch);
    return {};
  };
  LEEWAY_TRY(each(spans, work));
  return std::move(builder).finish();
}

}  // namespace leeway
