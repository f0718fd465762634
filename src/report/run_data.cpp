#include "report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/human.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, kCurves> kCurveWords = {
    "train_loss", "valid_loss", "valid_loss_own", "gradient_norm", "tokens_per_second",
    "consensus",  "drift",      "correction",     "lag",           "learning_rate"};

constexpr std::array<std::string_view, 5> kStateWords = {"finished", "stopped", "diverged",
                                                         "unfinished", "running"};

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Seven digits are more than a chart shows, and take half the bytes of sixteen.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 6 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

Json to_json(const Series& series) {
  Json points = Json::array();
  for (const Point& point : series.points()) {
    const Standing& at = point.at;
    points.push_back({at.update, at.tokens, rounded(at.seconds), at.bytes_averaging, at.bytes,
                      rounded(point.value)});
  }
  return {{"seen", series.seen()}, {"thinned", series.thinned()}, {"points", std::move(points)}};
}

Json to_json(const Histogram& histogram) {
  Json counts = Json::array();
  for (const auto& [value, count] : histogram.counts()) counts.push_back({value, count});
  return counts;
}

Json to_json(const WorkerData& worker) {
  return {{"replica", worker.worker.replica.value}, {"stage", worker.worker.stage.value},
          {"busy", or_null(worker.busy.share())},   {"pieces", worker.pieces},
          {"bytes_sent", worker.bytes_sent},        {"delays", to_json(worker.delays)}};
}

}  // namespace

std::string_view curve_word(Curve curve) { return kCurveWords[static_cast<size_t>(curve)]; }
std::string_view state_word(RunState state) { return kStateWords[static_cast<size_t>(state)]; }

std::optional<double> Headline::traffic_share() const {
  if (bytes_allreduce.value_or(0) <= 0) return std::nullopt;
  return static_cast<double>(replicas_sent()) / static_cast<double>(*bytes_allreduce);
}

int64_t Headline::replicas_sent() const {
  return bytes_between_replicas.value_or(bytes[static_cast<size_t>(Purpose::kAveraging)]);
}

std::optional<double> Headline::perplexity() const {
  return valid_loss ? std::optional(std::exp(*valid_loss)) : std::nullopt;
}

std::string unfinished_note(const RunData& run, double now,
                            const std::optional<std::string>& holder) {
  std::string note = holder ? "the run goes on: " + *holder + " trains it"
                            : "the run has not ended: it was cut off, or goes on where its lock "
                              "cannot be seen";
  if (run.written_at) {
    note += fmt::format("; last event {} ago", human_seconds(std::max(0.0, now - *run.written_at)));
  }
  if (run.cut) note += "; an incomplete line at the end of its events.jsonl is left out";
  return note;
}

std::string RunData::setting(std::string_view key) const {
  for (const auto& [name_of, value] : config) {
    if (name_of == key) return value;
  }
  return "";
}

Json to_json(const Headline& headline) {
  Json json = {{"updates", headline.updates},
               {"tokens", headline.tokens},
               {"train_loss", or_null(headline.train_loss)},
               {"valid_loss", or_null(headline.valid_loss)},
               {"seconds", headline.seconds},
               {"tokens_per_second", headline.tokens_per_second},
               {"busy", or_null(headline.busy)},
               {"perplexity", or_null(headline.perplexity())},
               {"updates_wanted", or_null(headline.updates_wanted)},
               {"seconds_left", or_null(headline.seconds_left)},
               {"epochs", or_null(headline.epochs)},
               {"learning_rate", or_null(headline.learning_rate)}};
  for (int i = 0; i < kPurposes; ++i) {
    json["bytes_" + std::string(purpose_word(static_cast<Purpose>(i)))] =
        headline.bytes[static_cast<size_t>(i)];
  }
  json["bytes_total_between_replicas"] = headline.replicas_sent();
  json["bytes_allreduce"] = or_null(headline.bytes_allreduce);
  json["traffic_share"] = or_null(headline.traffic_share());
  json["lag_mean"] = or_null(headline.lag_mean);
  json["consensus"] = or_null(headline.consensus);
  json["agreement"] = headline.agreement.empty() ? Json() : Json(headline.agreement);
  return json;
}

Json to_json(const RunData& run) {
  Json json = {{"name", run.name},
               {"folder", run.folder},
               {"version", run.version},
               {"state", state_word(run.state)},
               {"headline", to_json(run.headline)},
               {"train_tokens", run.train_tokens},
               {"cores", run.cores.cores},
               {"threads", run.cores.threads},
               {"written_at", or_null(run.written_at)}};
  json["config"] = Json::object();
  for (const auto& [key, value] : run.config) json["config"][key] = value;
  json["curves"] = Json::object();
  for (size_t i = 0; i < run.curves.size(); ++i) {
    json["curves"][std::string(kCurveWords[i])] = to_json(run.curves[i]);
  }
  json["workers"] = Json::array();
  for (const WorkerData& worker : run.workers) json["workers"].push_back(to_json(worker));
  json["members"] = to_json(run.members);
  json["lags"] = to_json(run.lags);
  json["contributors"] = to_json(run.contributors);
  json["timeline"] = run.timeline;
  json["timeline_notes"] = run.timeline_notes;
  json["happened"] = run.happened;
  json["notes"] = run.notes;
  return json;
}

}  // namespace leeway
