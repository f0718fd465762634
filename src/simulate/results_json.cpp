#include "simulate/results_json.h"

#include <nlohmann/json.hpp>

#include "config/words.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

Json histogram_json(const ValueCounts& histogram) {
  Json json = Json::array();
  for (const auto& [value, count] : histogram) json.push_back({value, count});
  return json;
}

Json stages_json(const MethodResult& result) {
  Json json = Json::array();
  for (size_t s = 0; s < result.stages.size(); ++s) {
    const StageResult& stage = result.stages[s];
    json.push_back({{"stage", s},
                    {"busy", stage.busy},
                    {"delay_mean", mean_value(stage.delays)},
                    {"delays", histogram_json(stage.delays)},
                    {"memory_bytes", stage.memory_bytes}});
  }
  return json;
}

Json points_json(const std::vector<LossPoint>& points) {
  Json json = Json::array();
  for (const LossPoint& point : points)
    json.push_back({{"seconds", point.seconds}, {"update", point.update}, {"loss", point.loss}});
  return json;
}

Json per_worker_json(const PerWorker& amount) {
  return {{"mean", amount.mean}, {"most", amount.most}};
}

Json method_json(const Cluster& cluster, const MethodResult& result) {
  const Recipe& recipe = result.recipe.recipe;
  Json json;
  json["method"] = result.name;
  if (!result.failure.empty()) json["failure"] = result.failure;
  json["schedule"] = word_of(recipe.pipeline.schedule);
  json["averaging"] = word_of(recipe.averaging.method);
  json["stages"] = recipe.mesh.stages;
  json["replicas"] = recipe.mesh.replicas;
  json["parameters"] = result.parameters;
  json["updates"] = result.updates;
  json["seconds"] = result.seconds;
  json["tokens_per_second"] = result.tokens_per_second;
  json["busy"] = result.busy;
  json["bytes_activations"] = result.bytes.activations;
  json["bytes_gradients"] = result.bytes.gradients;
  json["bytes_averaging"] = result.bytes.averaging;
  json["bytes_evaluation"] = result.bytes.evaluation;
  json["averaging_bytes_per_worker_update"] = per_worker_json(result.averaging_bytes);
  json["averaging_seconds_per_worker_update"] = per_worker_json(result.averaging_seconds);
  json["rounds"] = result.rounds;
  json["lag_mean"] = result.lags.empty() ? Json(nullptr) : Json(mean_value(result.lags));
  json["lags"] = histogram_json(result.lags);
  json["by_stage"] = stages_json(result);
  json["by_site"] = Json::array();
  for (const SiteTraffic& traffic : result.traffic) {
    json["by_site"].push_back({{"from", cluster.sites[traffic.from]},
                               {"to", cluster.sites[traffic.to]},
                               {"messages", traffic.messages},
                               {"bytes", traffic.bytes}});
  }
  json["busiest_link"] = {
      {"from", result.busiest.from}, {"to", result.busiest.to}, {"bytes", result.busiest.bytes}};
  json["price_per_hour"] = result.price_per_hour;
  json["price_per_million_tokens"] = result.price_per_million_tokens();
  json["events"] = result.events;
  json["notes"] = result.notes;
  if (result.losses.empty()) return json;
  if (result.stand_in_parameters > 0) json["stand_in_parameters"] = result.stand_in_parameters;
  json["losses"] = points_json(result.losses);
  json["evaluations"] = points_json(result.evaluations);
  return json;
}

}  // namespace

double speed_up(const std::vector<MethodResult>& results, size_t at) {
  const double base = results.front().tokens_per_second;
  return base > 0 ? results[at].tokens_per_second / base : 0;
}

double seconds_to_loss(const MethodResult& result, double loss) {
  for (const LossPoint& point : result.curve()) {
    if (point.loss <= loss) return point.seconds;
  }
  return -1;
}

std::string results_json(const Scenario& scenario, const Cluster& cluster,
                         const std::vector<MethodResult>& results) {
  Json json;
  json["version"] = LEEWAY_VERSION;
  json["scenario"] = scenario.source_name;
  json["machines"] = cluster.machines.size();
  json["sites"] = cluster.sites;
  json["methods"] = Json::array();
  for (size_t at = 0; at < results.size(); ++at) {
    Json method = method_json(cluster, results[at]);
    method["speed_up"] = speed_up(results, at);
    const double target = scenario.options.target_loss;
    if (target > 0) {
      const double seconds = seconds_to_loss(results[at], target);
      method["seconds_to_target"] = seconds < 0 ? Json(nullptr) : Json(seconds);
    }
    json["methods"].push_back(std::move(method));
  }
  return json.dump(2) + "\n";
}

}  // namespace leeway
