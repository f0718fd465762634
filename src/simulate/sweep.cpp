#include "simulate/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/human.h"
#include "base/text_table.h"
#include "simulate/results_text.h"

namespace leeway {
namespace {

std::string size_set(int64_t replicas) { return fmt::format("mesh.replicas={}", replicas); }

std::string milliseconds(double seconds) {
  return seconds == 0 ? "-" : fmt::format("{:.1f} ms", 1e3 * seconds);
}

std::string bytes_or_none(double bytes) { return bytes == 0 ? "-" : shown_bytes(bytes); }

}  // namespace

Result<std::vector<Method>> methods_to_run(const Scenario& scenario) {
  const std::vector<int64_t>& sizes = scenario.options.replicas;
  std::vector<std::string> largest;
  if (!sizes.empty()) largest.push_back(size_set(*std::ranges::max_element(sizes)));
  LEEWAY_ASSIGN(const LoadedRecipe base, scenario.recipe_with(largest));
  const std::vector<Method> methods =
      scenario.methods.empty() ? default_methods(base) : scenario.methods;
  if (sizes.empty()) return methods;
  std::vector<Method> all;
  for (const Method& method : methods) {
    for (const int64_t replicas : sizes) {
      Method sized = method;
      sized.name += fmt::format(", {}", counted(replicas, "replica"));
      sized.set.push_back(size_set(replicas));
      all.push_back(std::move(sized));
    }
  }
  return all;
}

std::string sweep_report(const Scenario& scenario, const std::vector<MethodResult>& results) {
  std::vector<Row> rows;
  for (const MethodResult& result : results) {
    if (!result.failure.empty()) continue;
    rows.push_back({result.name, bytes_or_none(result.averaging_bytes.mean),
                    bytes_or_none(result.averaging_bytes.most),
                    milliseconds(result.averaging_seconds.mean),
                    milliseconds(result.averaging_seconds.most),
                    result.lags.empty() ? "-" : fmt::format("{:.2g}", mean_value(result.lags)),
                    human_count(static_cast<uint64_t>(result.tokens_per_second))});
  }
  const Row heading = {"averaging, per update",
                       "sent by a worker",
                       "by the worst",
                       "processor time",
                       "of the worst",
                       "lag",
                       "tokens/s"};
  const MethodResult& first = results.front();
  const std::string table = rows.empty() ? "" : "\n" + stages_text(heading, rows);
  return fmt::format("{}: {} a replica, {}\n{}{}", scenario.source_name,
                     counted(first.recipe.recipe.mesh.stages, "stage"),
                     counted(first.parameters, "parameter"), table, notes_text(results));
}

}  // namespace leeway
