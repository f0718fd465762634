#include "report/work_survey.h"

#include <algorithm>

namespace leeway {
namespace {

// Beyond so many updates after a flush point every pipeline is full.
constexpr int64_t kFar = 4096;

// The evaluation of an update runs beside later updates, so it is not part of the update's time
// span. Neither is an owner's work for others, which happens whenever it is asked.
bool is_beside(const Work& work) {
  return is_evaluation(work) || work.kind == WorkKind::kReduce || work.kind == WorkKind::kRepeat;
}

bool is_training(WorkKind kind) {
  return kind == WorkKind::kForward || kind == WorkKind::kBackward || kind == WorkKind::kUpdate;
}

void widen(TimeSpan& span, const WorkTimes& times) {
  span.begin = std::min(span.begin, times.begin);
  span.end = std::max(span.end, times.end);
}

void widen(std::optional<UpdateRange>& range, int64_t update) {
  if (!range) range = {update, update};
  range->first = std::min(range->first, update);
  range->last = std::max(range->last, update);
}

}  // namespace

int64_t WorkSurvey::replicas() const {
  std::set<ReplicaId> found;
  for (const auto& [worker, covered] : workers) found.insert(worker.replica);
  return static_cast<int64_t>(found.size());
}

int64_t WorkSurvey::stages() const { return static_cast<int64_t>(rows.size()); }

void WorkSurveyor::Busy::add(const WorkRecord& record) {
  constexpr size_t kWaiting = 64;
  const auto place = std::upper_bound(
      waiting_.begin(), waiting_.end(), record.times.begin,
      [](const Nanos& begin, const Piece& piece) { return begin < piece.times.begin; });
  waiting_.insert(place, {record.times, record.work.kind});
  if (waiting_.size() <= kWaiting) return;
  take(waiting_.front());
  waiting_.pop_front();
}

// Overlapping pieces count once: they share one worker.
void WorkSurveyor::Busy::take(const Piece& piece) {
  const auto& [begin, end] = piece.times;
  if (!warm_) {
    if (piece.kind != WorkKind::kBackward) return;
    warm_ = true;
    begin_ = end_ = until_ = begin;
  }
  const Nanos from = std::max(begin, until_);
  if (end > from) busy_ += static_cast<double>((end - from).count);
  until_ = std::max(until_, end);
  if (!is_training(piece.kind)) return;
  end_ = std::max(end_, end);
  busy_at_end_ = busy_ - static_cast<double>((until_ - end_).count);
}

BusyTime WorkSurveyor::Busy::time() {
  for (const Piece& piece : waiting_) take(piece);
  waiting_.clear();
  if (!warm_) return {};
  return {.busy_ns = busy_at_end_, .whole_ns = static_cast<double>((end_ - begin_).count)};
}

void WorkSurveyor::add(const WorkRecord& record, std::optional<size_t> stretch) {
  const Work& work = record.work;
  if (empty()) survey_.span = {record.times.begin, record.times.end};
  widen(survey_.span, record.times);
  ++survey_.records;
  if (work.kind == WorkKind::kSave) add_flush(work.update);
  Row& row = rows_[record.worker];
  if (work.kind == WorkKind::kUpdate) row.made = work.update;
  if (is_evaluation(work)) survey_.disturbed.insert({row.running, row.running + 1});
  row.running = std::max(row.running, work.update);
  if (!stretch) return;
  widen(all_, work.update);
  if (!is_of_round(work.kind)) widen(own_, work.update);
  const auto [found, first] = survey_.updates.try_emplace(work.update);
  WorkSurvey::UpdateSpan& update = found->second;
  if (first) update.all = {record.times.begin, record.times.end};
  widen(update.all, record.times);
  if (!is_beside(work)) {
    if (!update.own) update.own = {record.times.begin, record.times.end};
    widen(*update.own, record.times);
  }
  if (work.kind == WorkKind::kBackward) update.has_backwards = true;
  if (*stretch != row.stretch || row.covered.empty()) {
    row.measured.after_warmup += row.busy.time();
    row.busy = {};
    row.stretch = *stretch;
    row.covered.push_back({record.times.begin, record.times.end});
  }
  widen(row.covered.back(), record.times);
  row.busy.add(record);
  count(row, record);
}

void WorkSurveyor::count(Row& row, const WorkRecord& record) {
  const Work& work = record.work;
  if (!is_of_round(work.kind)) ++row.pieces;
  row.measured.bytes_sent += static_cast<double>(record.bytes_sent);
  if (work.kind != WorkKind::kBackward) return;
  row.measured.delay_max = std::max(row.measured.delay_max, work.delay);
  const auto next = flushes_.lower_bound(work.update);
  const int64_t since = next == flushes_.begin() ? kFar : work.update - *std::prev(next);
  Delays& delays = row.delays[std::min(since, kFar)];
  ++delays.count;
  delays.sum += static_cast<double>(work.delay);
}

std::vector<UpdateRange> WorkSurveyor::stretches(bool partial) const {
  if (!partial) return {{survey_.first_update, survey_.last_update}};
  std::vector<UpdateRange> found;
  for (const auto& [update, span] : survey_.updates) {
    // A stretch also has forwards of the updates after it, and the end of the one before.
    if (!span.has_backwards) continue;
    if (found.empty() || update > found.back().last + 1) found.push_back({update, update});
    found.back().last = update;
  }
  return found;
}

WorkSurvey WorkSurveyor::finish(bool partial) && {
  LEEWAY_CHECK(!empty(), "a survey must have work");
  WorkSurvey& survey = survey_;
  // The owner of a round works for others, maybe before its own first update, so rounds count only
  // if there is nothing else.
  const UpdateRange range = own_.value_or(all_.value_or(UpdateRange{}));
  survey.first_update = range.first;
  survey.last_update = range.last;
  survey.partial = partial;
  survey.stretches = stretches(partial);
  if (partial && !survey.stretches.empty()) {
    survey.first_update = survey.stretches.front().first;
    survey.last_update = survey.stretches.back().last;
  }
  for (const int64_t update : flushes_) {  // drains, fills
    survey.disturbed.insert({update, update + 1});
  }
  std::map<StageId, StageRow> by_stage;
  int64_t least = INT64_MAX;
  for (auto& [worker, row] : rows_) {
    survey.workers[worker] = partial ? std::optional(row.covered) : std::nullopt;
    least = std::min(least, row.made);
    survey.made_by_any = std::max(survey.made_by_any, row.made);
    survey.longest_lane = std::max(survey.longest_lane, row.pieces);
    row.measured.after_warmup += row.busy.time();
    // Leaves out the updates after a flush point in which the pipeline fills: as many as the
    // largest delay, and at least one.
    const int64_t filling = std::max<int64_t>(row.measured.delay_max, 1);
    for (auto it = row.delays.upper_bound(std::min(filling, kFar - 1)); it != row.delays.end();
         ++it) {
      row.measured.delayed += it->second.count;
      row.measured.delay_sum += it->second.sum;
    }
    by_stage[worker.stage] += row.measured;
  }
  survey.made_by_all = std::max(least, made_);
  survey.made_by_any = std::max(survey.made_by_any, made_);
  for (auto& [stage, row] : by_stage) {
    row.stage = stage;
    survey.rows.push_back(row);
  }
  return std::move(survey_);
}

WorkSurvey survey_of(const WorkHistory& history) {
  WorkSurveyor surveyor;
  for (const int64_t update : history.flushes) surveyor.add_flush(update);
  for (const WorkerHistory& lane : history.lanes) {
    for (size_t i = 0; i < lane.sessions(); ++i) {
      for (const WorkRecord& record : lane.session(i)) surveyor.add(record, i);
    }
  }
  return std::move(surveyor).finish(history.partial);
}

}  // namespace leeway
