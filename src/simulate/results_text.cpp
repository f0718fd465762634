#include "simulate/results_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/human.h"
#include "base/text_table.h"
#include "recipe/memory_check.h"
#include "simulate/results_json.h"
#include "terminal/progress.h"

namespace leeway {
namespace {

constexpr size_t kColumnsMax = 12;  // stages; with more, the middle ones are left out

std::string bytes_text(double bytes) { return bytes == 0 ? "-" : shown_bytes(bytes); }

std::string bytes_per_update(const MethodResult& result, int64_t bytes) {
  return bytes_text(static_cast<double>(bytes) /
                    static_cast<double>(std::max<int64_t>(1, result.updates)));
}

// "1.4 on average: 0 25 %, 1 75 %"; of many values, only the most frequent.
std::string distribution(const ValueCounts& histogram) {
  constexpr size_t kShown = 4;
  if (histogram.empty()) return "-";
  double all = 0;
  for (const auto& [value, count] : histogram) all += static_cast<double>(count);
  std::vector<std::pair<double, int64_t>> often(histogram.begin(), histogram.end());
  std::ranges::stable_sort(often, std::greater{}, &std::pair<double, int64_t>::second);
  often.resize(std::min(often.size(), kShown));
  std::ranges::sort(often);
  std::vector<std::string> parts;
  for (const auto& [value, count] : often)
    parts.push_back(fmt::format("{:.3g} {:.0f} %", value, 100 * static_cast<double>(count) / all));
  std::string text =
      fmt::format("{:.3g} on average: {}", mean_value(histogram), fmt::join(parts, ", "));
  if (often.size() < histogram.size()) text += fmt::format(", up to {:.3g}", largest_of(histogram));
  return text;
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} s", seconds) : human_seconds(seconds);
}

// Has extra columns if there are prices or a loss to reach.
std::string overview(const Scenario& scenario, const std::vector<MethodResult>& results) {
  const double target = scenario.options.target_loss;
  const bool trained = std::ranges::any_of(
      results, [](const MethodResult& result) { return !result.losses.empty(); });
  const bool validated = std::ranges::any_of(
      results, [](const MethodResult& result) { return !result.evaluations.empty(); });
  const bool priced = std::ranges::any_of(
      results, [](const MethodResult& result) { return result.price_per_hour > 0; });
  Row heading = {"method", "tokens/s", "speed-up", "busy", "sent per update", "memory"};
  if (priced) heading.push_back("price / M tokens");
  if (trained) heading.push_back("time");
  if (trained) heading.push_back(validated ? "loss" : "training loss");
  if (trained && target > 0) heading.push_back(fmt::format("time to {:g}", target));
  std::vector<Row> rows;
  for (size_t at = 0; at < results.size(); ++at) {
    const MethodResult& result = results[at];
    if (!result.failure.empty()) continue;
    const double factor = speed_up(results, at);
    Row row = {result.name,
               human_count(static_cast<uint64_t>(result.tokens_per_second)),
               factor > 0 ? fmt::format("{:.2f}", factor) : "-",
               fmt::format("{:.0f} %", 100 * result.busy),
               bytes_per_update(result, result.bytes.total()),
               shown_bytes(result.worker_memory())};
    if (priced) row.push_back(fmt::format("{:.4f}", result.price_per_million_tokens()));
    if (trained) {
      row.push_back(seconds_text(result.curve().back().seconds));
      row.push_back(fmt::format("{:.4f}", result.curve().back().loss));
    }
    if (trained && target > 0) {
      const double seconds = seconds_to_loss(result, target);
      row.push_back(seconds < 0 ? "never" : seconds_text(seconds));
    }
    rows.push_back(row);
  }
  return rows.empty() ? "" : stages_text(heading, rows);
}

std::string trained_in_their_place(const std::vector<MethodResult>& results) {
  for (const MethodResult& result : results) {
    if (result.stand_in_parameters == 0) continue;
    return fmt::format("losses: from a stand-in with {}, at the pace of the {} above\n",
                       counted(result.stand_in_parameters, "parameter"),
                       human_count(static_cast<uint64_t>(result.parameters)));
  }
  return "";
}

// One column per stage.
template <class Cell>
std::string by_stage(const std::string& title, const std::vector<MethodResult>& results,
                     Cell cell) {
  size_t stages = 0;
  for (const MethodResult& result : results) stages = std::max(stages, result.stages.size());
  std::vector<size_t> columns;
  for (size_t s = 0; s < stages; ++s) {
    const bool end = s < kColumnsMax / 2 || s >= stages - kColumnsMax / 2;
    if (stages <= kColumnsMax || end) columns.push_back(s);
  }
  Row heading = {title};
  for (const size_t s : columns) heading.push_back(fmt::format("{}", s));
  std::vector<Row> rows;
  for (const MethodResult& result : results) {
    if (!result.failure.empty()) continue;
    Row row = {result.name};
    for (const size_t s : columns)
      row.push_back(s < result.stages.size() ? cell(result.stages[s]) : "");
    rows.push_back(row);
  }
  return rows.empty() ? "" : fmt::format("\n{}", stages_text(heading, rows));
}

std::string purposes(const std::vector<MethodResult>& results) {
  std::vector<Row> rows;
  for (const MethodResult& result : results) {
    if (!result.failure.empty()) continue;
    rows.push_back({result.name, bytes_per_update(result, result.bytes.activations),
                    bytes_per_update(result, result.bytes.gradients),
                    bytes_per_update(result, result.bytes.averaging),
                    bytes_per_update(result, result.bytes.evaluation), distribution(result.lags)});
  }
  if (rows.empty()) return "";
  const Row heading = {"sent per update", "activations", "gradients",
                       "averaging",       "evaluation",  "lag of rounds"};
  return fmt::format("\n{}", stages_text(heading, rows));
}

std::string between_sites(const Cluster& cluster, const std::vector<MethodResult>& results) {
  constexpr size_t kPairsMax = 8;
  std::string text;
  for (const MethodResult& result : results) {
    if (result.traffic.empty()) continue;
    std::vector<SiteTraffic> pairs = result.traffic;
    std::ranges::sort(pairs, std::greater{}, &SiteTraffic::bytes);
    std::string line = fmt::format("  {}: ", result.name);
    for (size_t at = 0; at < std::min(pairs.size(), kPairsMax); ++at) {
      line += fmt::format("{}{} to {} {}", at == 0 ? "" : ", ", cluster.sites[pairs[at].from],
                          cluster.sites[pairs[at].to], bytes_per_update(result, pairs[at].bytes));
    }
    if (pairs.size() > kPairsMax) line += fmt::format(" and {} more", pairs.size() - kPairsMax);
    text += line + fmt::format("; most from {} to {}, {}\n", result.busiest.from, result.busiest.to,
                               bytes_per_update(result, result.busiest.bytes));
  }
  return text.empty() ? "" : fmt::format("\nbetween machines, per update:\n{}", text);
}

}  // namespace

std::string notes_text(const std::vector<MethodResult>& results) {
  std::string text;
  for (const MethodResult& result : results) {
    if (!result.failure.empty()) text += fmt::format("{}: {}\n", result.name, result.failure);
    for (const std::string& note : result.notes) text += fmt::format("{}: {}\n", result.name, note);
  }
  return text.empty() ? "" : fmt::format("\n{}", text);
}

std::string simulation_report(const Scenario& scenario, const Cluster& cluster,
                              const std::vector<MethodResult>& results) {
  const Recipe& recipe = results.front().recipe.recipe;
  std::string text = fmt::format(
      "{}: {} at {}, {} x {}, {}\n\n", scenario.source_name,
      counted(cluster.machines.size(), "machine"), counted(cluster.sites.size(), "site"),
      counted(recipe.mesh.stages, "stage"), counted(recipe.mesh.replicas, "replica"),
      counted(results.front().parameters, "parameter"));
  text += overview(scenario, results);
  text += trained_in_their_place(results);
  text += by_stage("busy, by stage", results, [](const StageResult& stage) {
    return fmt::format("{:.0f} %", 100 * stage.busy);
  });
  text += by_stage("delay, by stage", results, [](const StageResult& stage) {
    return stage.delays.empty()
               ? std::string("-")
               : fmt::format("{:.2f} ({})", mean_value(stage.delays), largest_of(stage.delays));
  });
  text += by_stage("memory, by stage", results,
                   [](const StageResult& stage) { return shown_bytes(stage.memory_bytes); });
  return text + purposes(results) + between_sites(cluster, results) + notes_text(results);
}

}  // namespace leeway
