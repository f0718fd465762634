#include "recipe/thread_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/human.h"
#include "config/named.h"

namespace leeway {

Status check_threads(const LoadedRecipe& loaded, int64_t cores) {
  constexpr int64_t kPerCore = 4;         // more only wait for each other
  constexpr int64_t kFew = 16;            // harmless on any machine
  constexpr int64_t kTogetherMax = 4096;  // limits of containers and users begin here
  const Recipe& recipe = loaded.recipe;
  const int64_t own = std::max<int64_t>(1, recipe.run.threads_per_worker);
  const int64_t own_max = std::max(kFew, kPerCore * cores);
  if (own > own_max)
    return usage_error(
        fmt::format("{} is more than this machine can use: it has {}; give {} or "
                    "less, or 0 to leave it to Leeway",
                    named(loaded, "run.threads_per_worker"), counted(cores, "core"), own_max));
  const bool threads = recipe.run.driver == DriverName::kThreads;
  const int64_t workers = threads ? recipe.mesh.stages * recipe.mesh.replicas : 1;
  const int64_t together_max = std::max(kTogetherMax, kPerCore * cores);
  if (workers * own > together_max)
    return usage_error(fmt::format(
        "{} and {} make {} workers, {} threads in all, but one machine runs at most {}: lower "
        "them, or try the mesh with `leeway simulate`",
        named(loaded, "mesh.stages"), named(loaded, "mesh.replicas"), workers, workers * own,
        together_max));
  return {};
}

}  // namespace leeway
