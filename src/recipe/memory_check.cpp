#include "recipe/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "base/process.h"
#include "recipe/planned_memory.h"

namespace leeway {
namespace {

// The largest part, worded to follow "of it for".
std::pair<std::string, double> largest_part(const StageMemory& all) {
  const std::pair<std::string, double> parts[] = {
      {"weights and their gradients", all.weights + all.gradients},
      {"the optimizer", all.optimizer + all.last_update},
      {"versions of the weights", all.versions + all.evaluation},
      {"activations", all.activations},
      {"averaging", all.averaging},
      {"transient buffers", all.passing + all.working}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

// Number of a GPU; "cuda" alone is the first.
size_t gpu_index(const std::string& device) {
  const size_t colon = device.find(':');
  return colon == std::string::npos ? 0 : std::stoul(device.substr(colon + 1));
}

}  // namespace

std::string memory_advice(const Recipe& recipe) {
  const PipelineOptions& pipeline = recipe.pipeline;
  std::vector<std::string> ways;
  if (pipeline.extra_per_hop > 0 && recipe.mesh.stages > 1)
    ways.push_back(fmt::format("lower pipeline.extra_per_hop ({})", pipeline.extra_per_hop));
  if (!pipeline.recompute) ways.push_back("set pipeline.recompute = true");
  if (recipe.data.batch > pipeline.update_every)
    ways.push_back(fmt::format("lower data.batch ({})", recipe.data.batch));
  if (recipe.optimizer.moments == MomentType::kF32 && recipe.run.precision != Precision::kFp64)
    ways.push_back("set optimizer.moments = \"bf16\"");
  if (recipe.mesh.replicas > 1)
    ways.push_back(fmt::format("lower mesh.replicas ({})", recipe.mesh.replicas));
  ways.push_back("make the model smaller");
  const std::string last = std::move(ways.back());
  ways.pop_back();
  return ways.empty() ? last : fmt::format("{} or {}", fmt::join(ways, ", "), last);
}

Status check_memory(const Recipe& recipe, int64_t vocabulary, const std::vector<double>& gpus) {
  return check_memory(recipe, planned_memory(recipe, vocabulary),
                      {.machine = static_cast<double>(physical_memory_bytes()), .gpus = gpus});
}

Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan,
                    const DeviceMemory& there) {
  const auto devices = memory_by_device(recipe, plan, static_cast<int>(there.gpus.size()));
  for (const auto& [device, need] : devices) {
    const bool gpu = !device.empty();
    if (gpu && gpu_index(device) >= there.gpus.size()) continue;
    const double available = gpu ? there.gpus[gpu_index(device)] : there.machine;
    if (need.total() <= available) continue;
    const auto [part, bytes] = largest_part(need);
    return usage_error(
        fmt::format("this run needs about {} of memory{}, {} of it for {}, but {} has {}: {}",
                    shown_bytes(need.total()), gpu ? " on " + device : "", shown_bytes(bytes), part,
                    gpu ? "it" : "this machine", shown_bytes(available), memory_advice(recipe)));
  }
  return {};
}

}  // namespace leeway
