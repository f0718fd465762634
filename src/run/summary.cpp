#include "run/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/hash.h"
#include "base/process.h"
#include "run/drivers.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json stage_json(const StageSummary& stage, size_t index) {
  const StageStatistics& statistics = stage.statistics;
  return {{"stage", index},
          {"parameters", stage.parameters},
          {"delay_expected", statistics.delay_expected},
          {"delay_mean", or_null(statistics.delay_mean)},
          {"delay_max", statistics.delay_max},
          {"prediction_error", or_null(statistics.prediction_error)},
          {"versions_peak", stage.versions_peak},
          {"version_bytes", stage.version_bytes},
          {"busy", statistics.busy}};
}

ReplicaSet evaluated_replicas(const nlohmann::json& summary) {
  ReplicaSet replicas;
  const auto found = summary.find("valid_replicas");
  if (found == summary.end() || !found->is_array()) return replicas;
  for (const auto& replica : *found) {
    const int64_t number = replica.is_number_integer() ? replica.get<int64_t>() : -1;
    if (number >= 0 && number < ReplicaSet::kReplicasMax) replicas.add({number});
  }
  return replicas;
}

}  // namespace

std::optional<double> train_loss(const RunCounters& counters) {
  const auto& losses = counters.recent_losses;
  if (losses.empty()) return std::nullopt;
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

int64_t bytes_between_replicas(const RunCounters& counters) {
  return counters.bytes_averaging + counters.bytes_copies;
}

std::string summary_json(const SummaryParts& parts) {
  const RunCounters& counters = parts.counters;
  Json json;
  json["version"] = LEEWAY_VERSION;
  json["finished"] = parts.finished;
  json["parameters"] = parts.parameters;
  json["updates"] = counters.update;
  json["tokens"] = parts.tokens;
  json["train_loss"] = or_null(train_loss(counters));
  json["valid_loss"] = or_null(parts.valid_loss);
  json["valid_update"] = parts.valid_update ? Json(*parts.valid_update) : Json(nullptr);
  json["valid_replicas"] = Json::array();
  for (const ReplicaId replica : parts.valid_replicas) {
    json["valid_replicas"].push_back(replica.value);
  }
  const std::optional<Evaluated>& own = parts.valid_own;
  json["valid_loss_own"] = own ? Json(own->loss) : Json(nullptr);
  json["valid_update_own"] = own ? Json(own->update) : Json(nullptr);
  json["valid_replica_own"] = own ? Json(own->replicas.member(0).value) : Json(nullptr);
  json["valid_bits_per_byte"] = or_null(parts.valid_bits_per_byte);
  json["seconds"] = counters.seconds;
  json["seconds_updating"] = counters.seconds_updating;
  json["tokens_per_second"] = counters.seconds_updating > 0
                                  ? static_cast<double>(parts.tokens) / counters.seconds_updating
                                  : 0.0;
  json["bytes_activations"] = counters.bytes_activations;
  json["bytes_gradients"] = counters.bytes_gradients;
  json["bytes_evaluation"] = counters.bytes_evaluation;
  json["bytes_averaging"] = counters.bytes_averaging;
  json["bytes_total_between_replicas"] = bytes_between_replicas(counters);
  // For comparison only: an all-reduce would have sent this.
  json["bytes_allreduce"] = static_cast<int64_t>(parts.allreduce_bytes);
  json["replicas"] = parts.recipe.mesh.replicas;
  if (const int64_t threads = computing_threads(parts.recipe); threads > 0) {
    json["cores"] = core_count();  // with fewer cores than threads, busy includes waiting for one
    json["threads"] = threads;
  }
  json["rounds"] = parts.rounds.rounds;
  json["lag_mean"] = or_null(parts.rounds.lag_mean);
  json["lag_max"] = parts.rounds.lag_max;
  json["consensus"] = or_null(parts.rounds.consensus);
  json["agreement"] = parts.agreement ? Json(*parts.agreement) : Json(nullptr);
  json["contributors"] = parts.rounds.contributors;
  json["contributions_late"] = parts.round_counts.late;
  json["contributions_missing"] = parts.round_counts.missing;
  json["answers_missed"] = parts.round_counts.missed;
  json["rounds_dropped"] = parts.round_counts.dropped;
  json["chunks_written_off"] = parts.round_counts.written_off;
  json["stages"] = Json::array();
  for (size_t s = 0; s < parts.stages.size(); ++s) {
    json["stages"].push_back(stage_json(parts.stages[s], s));
  }
  json["peak_rss_bytes"] = parts.peak_rss_bytes;
  json["seed"] = parts.recipe.run.seed;
  json["weights_hash"] = hash_hex(parts.weights_hash);
  return json.dump(2) + "\n";
}

void take_over_summary(const Path& summary, RunCounters& counters, NewestEvaluations& valid) {
  const Result<std::string> text = read_text(summary);
  if (!text) return;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto is = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() && *found == counters.update;
  };
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  if (!is("updates")) return;
  counters.seconds = std::max(counters.seconds, number("seconds"));
  for (const auto& [key, bytes] : {std::pair("bytes_activations", &counters.bytes_activations),
                                   std::pair("bytes_gradients", &counters.bytes_gradients),
                                   std::pair("bytes_averaging", &counters.bytes_averaging),
                                   std::pair("bytes_evaluation", &counters.bytes_evaluation)}) {
    *bytes = std::max(*bytes, static_cast<int64_t>(number(key)));
  }
  const auto total = static_cast<int64_t>(number("bytes_total_between_replicas"));
  counters.bytes_copies = std::max(counters.bytes_copies, total - counters.bytes_averaging);
  const auto is_number = [&](const char* key) {
    return json.contains(key) && json[key].is_number();
  };
  if (is("valid_update") && is_number("valid_loss"))
    valid.mean = Evaluated{counters.update, number("valid_loss"), evaluated_replicas(json)};
  const auto replica = static_cast<int64_t>(number("valid_replica_own"));
  const bool known = replica >= 0 && replica < ReplicaSet::kReplicasMax;
  if (is("valid_update_own") && is_number("valid_loss_own") && known) {
    valid.own = Evaluated{counters.update, number("valid_loss_own"), ReplicaSet::of({replica}),
                          /*own=*/true};
  }
}

}  // namespace leeway
