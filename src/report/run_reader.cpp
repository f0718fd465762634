#include "report/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/human.h"
#include "events/event_log.h"
#include "report/work_history.h"

namespace leeway {
namespace {

constexpr double kFading = 0.98;      // decay of the replicas' spread per reduction
constexpr size_t kSpeedUpdates = 10;  // averaged for the speed
constexpr size_t kRecentLosses = 20;
constexpr size_t kHappenedMax = 200;

}  // namespace

BusyTime RunReader::Tally::total() const {
  BusyTime sum = data.busy;
  if (end > begin) {
    sum += {.busy_ns = static_cast<double>(busy_at_end.count),
            .whole_ns = static_cast<double>((end - begin).count)};
  }
  return sum;
}

void RunReader::Tally::begin_stretch(size_t number, Nanos at) {
  data.busy = total();
  stretch = number;
  begin = at;
  end = busy = busy_at_end = Nanos{};
}

RunReader::RunReader(const RunLimits& limits, std::vector<Event> resumes,
                     std::optional<Lane> weights_lane)
    : limits_(limits),
      resumes_(std::move(resumes)),
      weights_lane_(weights_lane),
      participation_(limits.changes_max),
      pieces_(limits.pieces_max) {
  data_.curves.assign(kCurves, Series(limits.points_max));
}

bool RunReader::superseded(const Event& event) const {
  const auto seen = static_cast<std::ptrdiff_t>(std::min(resumes_seen_, resumes_.size()));
  return std::any_of(resumes_.begin() + seen, resumes_.end(),
                     [&](const Event& resumed) { return supersedes(resumed, event); });
}

Status RunReader::add(std::string_view line) {
  const auto parsed = Event::parse(line);
  if (!parsed.ok()) return parsed.error();
  const Event& event = *parsed;
  const std::string& kind = event.kind();
  if (kind == "resumed") ++resumes_seen_;
  if (superseded(event)) return {};
  has_ticks_ = has_ticks_ || event.find(kTickName) != nullptr;
  stretches_.note(event);
  participation_.note(event);
  const int64_t update = event.integer("update").value_or(0);
  if (kind == kWorkEvent) worked(event);
  if (kind == "update") updated(event);
  if (kind == "evaluated") evaluated(event);
  if (kind == "evaluated_own") evaluated_own(event);
  if (kind == "resumed") resumed(event);
  if (kind == "started") started(event);
  if (kind == "changed") changed(event);
  if (kind == "diverged") {
    data_.state = RunState::kDiverged;
    happened(fmt::format("update {}: diverged", update + 1));
  }
  if (kind == "unstable") {
    happened(fmt::format("update {}: merging is unstable at a lag of {:.1f} updates", update,
                         event.number("lag").value_or(0)));
  }
  if (kind == "alone") {
    happened(fmt::format("update {}: most means had one contributor (means by contributors: {})",
                         update, event.text("contributors").value_or("")));
  }
  if (kind == "guarded") {
    happened(fmt::format("update {}: rounds are kept {} updates apart to keep merging stable",
                         update, event.integer("interval").value_or(0)));
  }
  if (kind == "ended") {
    take_bytes(event);  // rounds and evaluations after the last update
    const Event::Value* finished = event.find("finished");
    const bool* held = finished == nullptr ? nullptr : std::get_if<bool>(finished);
    data_.state = held != nullptr && *held ? RunState::kFinished : RunState::kStopped;
  }
  return {};
}

void RunReader::started(const Event& event) {
  data_.version = event.text("version").value_or("");
  data_.validation.text_hash = event.text("valid_hash").value_or("");
  data_.validation.tokenizer_hash = event.text("tokenizer_hash").value_or("");
  data_.cores = cores_of(event);
  data_.train_tokens = event.integer("train_tokens").value_or(0);
  parameters_ = event.integer("parameters").value_or(0);
}

void RunReader::changed(const Event& event) {
  const int64_t update = event.integer("update").value_or(0);
  const std::string change = event.text("change").value_or("");
  happened(fmt::format("update {}: changed {}", update, change));
  constexpr std::string_view kRate = "optimizer.rate was ";
  double before = 0;
  if (!change.starts_with(kRate)) return;
  const char* text = change.data() + kRate.size();
  const auto [end, code] = std::from_chars(text, change.data() + change.size(), before);
  if (code == std::errc()) rate_changes_.push_back({update, before});
}

Series RunReader::learning_rate(double rate) const {
  return data_.curve(Curve::kLearningRate).mapped([&](const Point& factor) {
    for (const RateChange& change : rate_changes_) {
      if (factor.at.update <= change.update) return factor.value * change.before;
    }
    return factor.value * rate;
  });
}

std::optional<double> RunReader::seconds_per_update() const {
  if (!session_begin_ || now_.update <= session_begin_->update) return std::nullopt;
  return (now_.seconds - session_begin_->seconds) /
         static_cast<double>(now_.update - session_begin_->update);
}

void RunReader::happened(std::string text) {
  if (data_.happened.size() < kHappenedMax) data_.happened.push_back(std::move(text));
}

void RunReader::resumed(const Event& event) {
  data_.state = RunState::kUnfinished;
  shifted_allreduce_bytes_ = event.integer("shifted_allreduce_bytes").value_or(0);
  if (const CoresUsed cores = cores_of(event); cores.cores > 0) data_.cores = cores;
  recent_.clear();
  session_begin_.reset();
  happened(fmt::format("resumed at update {}", event.integer("update").value_or(0)));
}

// Logs say since there are levels what was sent up to each update and to the end: the work alone
// would not.
void RunReader::take_bytes(const Event& event) {
  constexpr std::array<std::string_view, kPurposes> kNames = {
      "bytes_activations", "bytes_gradients", "bytes_averaging", "bytes_evaluation"};
  if (!event.integer(kNames.front())) return;
  updates_have_bytes_ = true;
  now_.bytes = 0;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const int64_t sent = event.integer(kNames[i]).value_or(0);
    data_.headline.bytes[i] = sent;
    now_.bytes += sent;
  }
  if (const auto between = event.integer("bytes_total_between_replicas")) {
    data_.headline.bytes_between_replicas = between;
  }
  now_.bytes_averaging = data_.headline.bytes[static_cast<size_t>(Purpose::kAveraging)];
}

void RunReader::count_bytes(const WorkRecord& record) {
  if (updates_have_bytes_) return;
  const Purpose purpose = purpose_of(record.work);
  data_.headline.bytes[static_cast<size_t>(purpose)] += record.bytes_sent;
  now_.bytes += record.bytes_sent;
  if (purpose == Purpose::kAveraging) now_.bytes_averaging += record.bytes_sent;
}

void RunReader::worked(const Event& event) {
  const auto checked = checked_work(event);
  if (!checked.ok()) {
    if (unreadable_++ == 0) why_unreadable_ = checked.error().message;
    return;
  }
  const WorkRecord& record = *checked;
  Tally& tally = tallies_[record.worker];
  tally.data.worker = record.worker;
  const bool updates = record.work.kind == WorkKind::kUpdate;
  // The update that diverged was not applied.
  if (updates && data_.state != RunState::kDiverged) tally.data.updates = record.work.update;
  count_bytes(record);
  if (is_of_round(record.work.kind)) count_round(event, record.work);
  const std::optional<size_t> stretch = stretches_.place(record);
  if (!stretch) return;
  if (stretch != tally.stretch) tally.begin_stretch(*stretch, record.times.begin);
  ++tally.data.pieces;
  tally.data.bytes_sent += record.bytes_sent;
  tally.busy = tally.busy + (record.times.end - record.times.begin);
  if (updates) {
    tally.end = record.times.end;
    tally.busy_at_end = tally.busy;
  }
  if (record.work.kind == WorkKind::kBackward)
    tally.data.delays.add(static_cast<double>(record.work.delay));
  pieces_.add(record, *stretch);
}

void RunReader::count_round(const Event& event, const Work& work) {
  if (work.lane == Lane::kEvaluation) return;
  const auto squared = [&](std::string_view name) {
    const double value = event.number(name).value_or(0);
    return value * value;
  };
  if (work.kind == WorkKind::kReduce && work.lane == weights_lane_ && event.number("spread")) {
    spread_ = kFading * spread_ + squared("spread");
    scale_ = kFading * scale_ + squared("scale");
  }
  const bool mean = work.kind == WorkKind::kReduce && work.lane == Lane::kMain;
  if (mean && !work.replicas.empty())
    data_.contributors.add(static_cast<double>(work.replicas.size()));
  if (work.kind != WorkKind::kMerge || work.replicas.empty()) return;
  if (event.number("drift")) drift_.add(squared("drift"));
  if (event.number("correction")) correction_.add(squared("correction"));
  if (work.lane != Lane::kMain) return;
  const double lag = lag_of(work);
  data_.lags.add(lag);
  lag_.add(lag);
  lag_all_.add(lag);
}

void RunReader::put(Curve curve, const Standing& at, double value) {
  if (std::isfinite(value)) data_.curves[static_cast<size_t>(curve)].add({at, value});
}

void RunReader::put_mean(Curve curve, const Standing& at, Mean& mean, bool root) {
  if (mean.count == 0) return;
  const double value = mean.sum / static_cast<double>(mean.count);
  put(curve, at, root ? std::sqrt(value) : value);
  mean = {};
}

void RunReader::updated(const Event& event) {
  const Standing before = now_;
  now_.update = event.integer("update").value_or(now_.update);
  now_.tokens = event.integer("tokens").value_or(now_.tokens);
  now_.seconds = event.number("seconds").value_or(now_.seconds);
  take_bytes(event);
  if (const int64_t more = now_.update - before.update; more > 0) {
    tokens_per_update_ =
        static_cast<double>(now_.tokens - before.tokens) / static_cast<double>(more);
  }
  if (const auto loss = event.number("loss")) {
    put(Curve::kTrainLoss, now_, *loss);
    recent_losses_.push_back(*loss);
    if (recent_losses_.size() > kRecentLosses) recent_losses_.pop_front();
  }
  if (const auto norm = event.number("gradient_norm")) put(Curve::kGradientNorm, now_, *norm);
  if (const auto factor = event.number("rate_factor")) put(Curve::kLearningRate, now_, *factor);
  if (!session_begin_) session_begin_ = now_;
  if (recent_.empty()) recent_.push_back(before);
  recent_.push_back(now_);
  if (recent_.size() > kSpeedUpdates + 1) recent_.pop_front();
  const double seconds = now_.seconds - recent_.front().seconds;
  if (seconds > 0) {
    put(Curve::kTokensPerSecond, now_,
        static_cast<double>(now_.tokens - recent_.front().tokens) / seconds);
  }
  if (scale_ > 0) put(Curve::kConsensus, now_, std::sqrt(spread_ / scale_));
  put_mean(Curve::kDrift, now_, drift_, true);
  put_mean(Curve::kCorrection, now_, correction_, true);
  put_mean(Curve::kLag, now_, lag_, false);
}

// Later updates may be done already: tokens are those of the evaluated weights, time and bytes
// those of the moment the loss was known.
Standing RunReader::standing_of_evaluation(const Event& event) const {
  Standing at = now_;
  at.update = event.integer("update").value_or(now_.update);
  at.tokens -= std::llround(static_cast<double>(now_.update - at.update) * tokens_per_update_);
  at.seconds = event.number("seconds").value_or(now_.seconds);
  return at;
}

void RunReader::evaluated(const Event& event) {
  const auto loss = event.number("valid_loss");
  if (!loss) return;
  put(Curve::kValidLoss, standing_of_evaluation(event), *loss);
  data_.headline.valid_loss = *loss;
  data_.validation.windows = event.integer("windows").value_or(0);
}

void RunReader::evaluated_own(const Event& event) {
  const auto loss = event.number("valid_loss_own");
  if (loss) put(Curve::kValidLossOwn, standing_of_evaluation(event), *loss);
}

RunData RunReader::data() const {
  RunData data = data_;
  Headline& headline = data.headline;
  headline.updates = now_.update;
  headline.tokens = now_.tokens;
  headline.seconds = now_.seconds;
  if (now_.seconds > 0)
    headline.tokens_per_second = static_cast<double>(now_.tokens) / now_.seconds;
  if (!recent_losses_.empty()) {
    headline.train_loss = std::accumulate(recent_losses_.begin(), recent_losses_.end(), 0.0) /
                          static_cast<double>(recent_losses_.size());
  }
  if (lag_all_.count > 0) headline.lag_mean = lag_all_.sum / static_cast<double>(lag_all_.count);
  if (scale_ > 0) headline.consensus = std::sqrt(spread_ / scale_);
  Mean busy;
  for (const auto& [worker, tally] : tallies_) {
    data.workers.push_back(tally.data);
    data.workers.back().busy = tally.total();
    if (const auto share = tally.total().share()) busy.add(*share);
  }
  if (busy.count > 0) headline.busy = busy.sum / static_cast<double>(busy.count);
  if (unreadable_ > 0) {
    data.notes.push_back(
        fmt::format("left out: {} of work: {}", counted(unreadable_, "piece"), why_unreadable_));
  }
  if (has_ticks_) data.notes.push_back(std::string(kOneOfSeveral));
  const bool partial = !stretches_.coverage().covers(now_.update);
  data.timeline = pieces_.svg(limits_.boxes_max, partial, data.timeline_notes);
  if (partial) {
    const std::string logged = stretches_.coverage().text(now_.update);
    data.notes.push_back(
        logged == "none"
            ? std::string("no work on microbatches is logged (run.log): there is no timeline, and "
                          "no delays, busy shares and bytes of single workers")
            : fmt::format("the work of updates {} is logged (run.log): the timeline, and delays, "
                          "busy shares and bytes of single workers, cover only these",
                          logged));
  }
  if (const int64_t updates = participation_.left_out(); updates > 0) {
    data.notes.push_back(
        fmt::format("replicas left and returned so often that stretches of up to {} are left out "
                    "of who took part",
                    counted(updates, "update")));
  }
  const bool thinned = std::any_of(data.curves.begin(), data.curves.end(),
                                   [](const Series& series) { return series.thinned(); });
  if (thinned) {
    data.notes.push_back(
        fmt::format("curves are thinned to at most {} points, keeping the smallest and the largest "
                    "of neighbouring points",
                    limits_.points_max));
  }
  return data;
}

}  // namespace leeway
