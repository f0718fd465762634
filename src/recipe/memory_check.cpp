#include "recipe/memory_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "base/process.h"
#include "recipe/planned_memory.h"
#include "recipe/stage_options.h"

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

// A device whose workers are planned to need more than it has.
struct Shortage {
  std::string device;  // empty: this machine
  StageMemory need;
  double available = 0;

  // Worded to begin with what is needed.
  std::string text() const {
    const auto [part, bytes] = largest_part(need);
    return fmt::format("about {} of memory{}, {} of it for {}, but {} has {}",
                       shown_bytes(need.total()), device.empty() ? "" : " on " + device,
                       shown_bytes(bytes), part, device.empty() ? "this machine" : "it",
                       shown_bytes(available));
  }
};

// Not those of GPUs that are unknown, or that would not say.
std::vector<Shortage> shortages(const Recipe& recipe, const std::vector<StageMemory>& plan,
                                const DeviceMemory& there) {
  std::vector<Shortage> found;
  const auto devices = memory_by_device(recipe, plan, static_cast<int>(there.gpus.size()));
  for (const auto& [device, need] : devices) {
    const bool gpu = !device.empty();
    if (gpu && gpu_index(device) >= there.gpus.size()) continue;
    const double available = gpu ? there.gpus[gpu_index(device)] : there.machine;
    if (gpu && available <= 0) continue;
    if (need.total() > available) found.push_back({device, need, available});
  }
  return found;
}

std::string alternatives(std::vector<std::string> ways) {
  const std::string last = std::move(ways.back());
  ways.pop_back();
  return ways.empty() ? last : fmt::format("{} or {}", fmt::join(ways, ", "), last);
}

bool has_graphs(const Recipe& recipe) {
  return recipe.run.device.starts_with("cuda") && uses_graphs(recipe.pipeline, at::kCUDA);
}

}  // namespace

DeviceMemory memory_here(const std::vector<double>& gpus) {
  return {.machine = static_cast<double>(physical_memory_bytes()), .gpus = gpus};
}

std::string memory_advice(const Recipe& recipe) {
  const PipelineOptions& pipeline = recipe.pipeline;
  std::vector<std::string> ways;
  if (pipeline.extra_per_hop > 0 && recipe.mesh.stages > 1)
    ways.push_back(fmt::format("lower pipeline.extra_per_hop ({})", pipeline.extra_per_hop));
  if (has_graphs(recipe)) ways.push_back("set pipeline.graphs = false");
  if (!pipeline.recompute) ways.push_back("set pipeline.recompute = true");
  const bool stashes =
      pipeline.stash && recipe.mesh.stages > 1 && pipeline.schedule == PipelineSchedule::kAsync;
  if (stashes && pipeline.stash_on == StashPlace::kDevice && recipe.run.device.starts_with("cuda"))
    ways.push_back("set pipeline.stash_on = \"host\"");
  if (recipe.data.batch > pipeline.update_every)
    ways.push_back(fmt::format("lower data.batch ({})", recipe.data.batch));
  if (recipe.optimizer.moments == MomentType::kF32 && recipe.run.precision != Precision::kFp64)
    ways.push_back("set optimizer.moments = \"bf16\"");
  if (recipe.mesh.replicas > 1)
    ways.push_back(fmt::format("lower mesh.replicas ({})", recipe.mesh.replicas));
  ways.push_back("make the model smaller");
  return alternatives(std::move(ways));
}

std::string memory_advice_on_resume(const Recipe& recipe) {
  std::vector<std::string> ways;
  if (has_graphs(recipe)) ways.push_back("set pipeline.graphs = false");
  if (!recipe.pipeline.recompute) ways.push_back("set pipeline.recompute = true");
  if (recipe.mesh.replicas > 1)
    ways.push_back(fmt::format("lower mesh.replicas ({})", recipe.mesh.replicas));
  ways.push_back("use a machine with more memory");
  return alternatives(std::move(ways));
}

Status check_memory(const Recipe& recipe, int64_t vocabulary, const std::vector<double>& gpus) {
  return check_memory(recipe, planned_memory(recipe, vocabulary), memory_here(gpus));
}

Status check_memory(const Recipe& recipe, const std::vector<StageMemory>& plan,
                    const DeviceMemory& there) {
  double host = 0;
  for (const auto& [device, need] :
       memory_by_device(recipe, plan, static_cast<int>(there.gpus.size()))) {
    host += need.host;
  }
  if (host > there.machine) {
    return usage_error(
        fmt::format("with pipeline.stash_on = \"host\" this run keeps about {} of weights in this "
                    "machine's memory, but it has {}: set pipeline.stash_on = \"device\", or {}",
                    shown_bytes(host), shown_bytes(there.machine), memory_advice(recipe)));
  }
  for (const Shortage& shortage : shortages(recipe, plan, there)) {
    if (shortage.need.total() <= kMemoryDoubt * shortage.available) continue;
    return usage_error(
        fmt::format("this run needs {}: {}", shortage.text(), memory_advice(recipe)));
  }
  return {};
}

std::vector<std::string> memory_notes(const Recipe& recipe, const std::vector<StageMemory>& plan,
                                      const DeviceMemory& there) {
  std::vector<std::string> notes;
  for (const Shortage& shortage : shortages(recipe, plan, there)) {
    notes.push_back(fmt::format("memory: this run may need {}; if it does not fit: {}",
                                shortage.text(), memory_advice(recipe)));
  }
  return notes;
}

}  // namespace leeway
