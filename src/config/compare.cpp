#include "config/compare.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "config/keys.h"

namespace leeway {
namespace {

constexpr std::array<std::string_view, 7> kNoMatter = {
    "run.device",           "run.threads_per_worker", "run.evaluate_every",
    "run.evaluate_windows", "run.checkpoint_every",   "run.keep",
    "mesh.stages"};
// The length of the run is here because the schedule of the rate follows it.
constexpr std::array<std::string_view, 9> kMayChange = {
    "run.updates",           "run.tokens",         "optimizer.rate",
    "optimizer.matrix_rate", "optimizer.decay",    "optimizer.clip",
    "optimizer.warmup",      "optimizer.schedule", "optimizer.final"};

bool contains(std::span<const std::string_view> paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

}  // namespace

std::vector<Difference> differences(const Recipe& a, const Recipe& b) {
  std::vector<Difference> found;
  for (const Key& key : keys()) {
    const Value first = value_of(key, a);
    const Value second = value_of(key, b);
    if (contains(kNoMatter, key.path) || first == second) continue;
    found.push_back({std::string(key.path), toml_text(first), toml_text(second),
                     contains(kMayChange, key.path)});
  }
  return found;
}

}  // namespace leeway
