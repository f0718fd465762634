#include "compare/data_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/hash.h"
#include "terminal/interrupt.h"

namespace leeway {
namespace {

// In the form that a run's first event has it.
std::string hash_of(const Dataset& data) {
  return hash_hex(data.train.info().content_hash) +
         hash_hex(data.valid ? data.valid->info().content_hash : 0);
}

}  // namespace

Status check_data_unchanged(const ComparisonPlan& plan, const Path& folder,
                            const std::vector<std::optional<RunOutcome>>& outcomes,
                            const ReadData& read_data) {
  std::map<std::vector<std::string>, std::string> hashes;  // by data names; empty: unreadable
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const PlannedRun& run = plan.runs[i];
    if (!run.refused.empty()) continue;
    const Recipe& recipe = run.recipe.recipe;
    const auto [now, added] = hashes.emplace(data_named(recipe.data), "");
    if (added) {
      const Result<Dataset> data = read_data(recipe, run_folder(folder, run));
      if (interrupted())
        return stopped_error("stopped before anything ran; run the same command to continue");
      if (data.ok()) now->second = hash_of(*data);
    }
    const std::string read = outcomes[i] ? outcomes[i]->data_hash : "";
    if (read.empty() || now->second.empty() || read == now->second) continue;
    std::vector<std::string> names = recipe.data.train;
    names.insert(names.end(), recipe.data.valid.begin(), recipe.data.valid.end());
    return usage_error(fmt::format(
        "the data has changed since {} read it ({}); choose another --out, or remove {} to rerun "
        "everything",
        run_folder(folder, run).string(), shown(fmt::format("{}", fmt::join(names, ", "))),
        (folder / "runs").string()));
  }
  return {};
}

}  // namespace leeway
