#include "run/mesh_model.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "averaging/merge.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/process.h"
#include "recipe/lane_options.h"
#include "recipe/placement.h"
#include "recipe/stage_options.h"
#include "run/device.h"

namespace leeway {
namespace {

// Updates between two prediction samples. Each costs two copies of the weights and a look at them,
// which a short run would notice if they came often; but the shortest has a few as well.
int64_t predict_every(int64_t run_updates) {
  constexpr int64_t kSamples = 50;
  constexpr int64_t kLeast = 10;
  return std::max(run_updates / kSamples, std::clamp(run_updates / 4, int64_t{1}, kLeast));
}

SamplerOptions sampler_of(const Recipe& recipe, const MeshData& data) {
  return {.seed = static_cast<uint64_t>(recipe.run.seed),
          .window_count = window_count_of(data.train.info().count, recipe.model.context),
          .replicas = recipe.mesh.replicas,
          .microbatch = microbatch_sequences(recipe),
          .own_parts = recipe.data.own_parts,
          .shift = data.shift};
}

// A worker has few threads in training, where all workers compute at once. Here they are made one
// after the other, and their initial weights take long on one core.
class AllCores {
 public:
  AllCores() { at::set_num_threads(static_cast<int>(core_count())); }
  ~AllCores() { at::set_num_threads(before_); }
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;

 private:
  int before_ = at::get_num_threads();
};

bool looks_ahead(const std::vector<StageOptions>& stages) {
  return std::ranges::any_of(stages, [](const StageOptions& stage) { return stage.horizon > 0; });
}

}  // namespace

std::unique_ptr<Worker> make_worker(const Recipe& recipe, const MeshData& data, const RunPlan& plan,
                                    WorkerId id, const Entry& entry) {
  std::vector<StageOptions> stages = stage_options(recipe, data.vocabulary);
  const ModelShape& shape = stages.front().shape;
  const auto s = static_cast<size_t>(id.stage.value);
  RunOptions run = recipe.run;
  run.device = worker_device(recipe, id, gpu_count());
  stages[s].device = at::Device(device_here(run));
  stages[s].graphs = uses_graphs(recipe.pipeline, stages[s].device);
  const Schedule schedule(plan.shape, id.stage);
  const bool tentative = recipe.pipeline.lookahead == Lookahead::kTentative;
  const bool whole = recipe.optimizer.clip_stages == StageClip::kWhole;
  const StageSlice all = whole_model(shape);
  const StageComputeOptions options = {
      .worker = id,
      .stage = stages[s],
      .sampler = sampler_of(recipe, data),
      .schedule = rate_schedule_options(recipe),
      .update_every = plan.shape.update_every,
      .clip = recipe.optimizer.clip,
      .clip_parameters = parameter_count(slice_layout(shape, whole ? stages[s].slice : all)),
      .tentative = {.warmup = schedule.delay_max() == 0 ? 0 : schedule.warmup(),
                    .refresh = tentative ? recipe.pipeline.refresh : 0},
      .wire = stage_wire(recipe, stages[s]).format,
      .predict_every = schedule.delay_max() == 0 ? 0 : predict_every(plan.run_updates),
      .evaluate_windows = recipe.run.evaluate_windows,
      .saves_last_update = looks_ahead(stages),
      .lanes = lane_options(recipe, stages[s], id.stage)};
  return std::make_unique<Worker>(
      id, plan, std::make_unique<StageCompute>(options, data.train, data.valid), entry);
}

Workers make_workers(const Recipe& recipe, const MeshData& data, const RunPlan& plan) {
  std::optional<AllCores> cores;
  if (recipe.run.threads_per_worker == 0) cores.emplace();  // else it was set
  Workers workers;
  for (size_t at = 0; at < plan.mesh().count(); ++at) {
    workers.push_back(make_worker(recipe, data, plan, plan.mesh().id(at), {}));
  }
  return workers;
}

int64_t parameters_of(const Workers& workers) {
  int64_t count = 0;
  for (const auto& worker : workers) {
    if (worker->id().replica.value == 0) count += worker->compute()->stage().weights().numel();
  }
  return count;
}

at::Tensor weights_of(const Workers& workers) {
  return weights_of(workers, Membership(workers.back()->id().replica.value + 1).members());
}

at::Tensor weights_of(const Workers& workers, const ReplicaSet& members) {
  std::map<int64_t, std::vector<at::Tensor>> copies;  // by stage
  for (const auto& worker : workers) {
    if (!members.contains(worker->id().replica)) continue;
    std::vector<at::Tensor>& own = copies[worker->id().stage.value];
    const bool shared = worker->compute()->averaging().common_model().defined();
    if (!shared || own.empty()) own.push_back(worker->compute()->model());
  }
  std::vector<at::Tensor> parts;
  for (const auto& [stage, replicas] : copies) {
    parts.push_back(replicas.size() == 1 ? replicas.front() : mean_of(replicas));
  }
  return (parts.size() == 1 ? parts.front() : at::cat(parts)).cpu();
}

uint64_t hash_of(const at::Tensor& weights) {
  return hash_bytes({static_cast<const std::byte*>(weights.const_data_ptr()), weights.nbytes()});
}

int64_t tokens_read(const RunCounters& counters, const Recipe& recipe) {
  return counters.update * tokens_per_update(recipe) +
         counters.shifted_sequences * recipe.model.context - counters.tokens_missed;
}

MeshSize mesh_size(const Recipe& recipe, int64_t vocabulary) {
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  MeshSize size = {.shape = stages.front().shape, .stages = {}};
  for (const StageOptions& stage : stages) size.stages.push_back(stage_parameters(stage));
  size.parameters = std::accumulate(size.stages.begin(), size.stages.end(), int64_t{0});
  const bool has_variance = recipe.optimizer.name != UpdateRule::kSgd;
  size.buffers = 1 + (has_variance ? 1 : 0) + (looks_ahead(stages) ? 1 : 0) +
                 averaging_buffer_names(recipe, vocabulary).size();
  return size;
}

StageState part_of(const ModelState& state, const MeshSize& mesh, WorkerId worker) {
  const ReplicaState& replica = state.replicas[static_cast<size_t>(worker.replica.value)];
  LEEWAY_CHECK(replica.weights.numel() == mesh.parameters, "shapes were checked before");
  const auto at = static_cast<size_t>(worker.stage.value);
  const int64_t offset =
      std::accumulate(mesh.stages.begin(), mesh.stages.begin() + worker.stage.value, int64_t{0});
  StageState part = {.worker = worker,
                     .update = replica.optimizer.updates,
                     .weights = replica.weights.narrow(0, offset, mesh.stages[at]),
                     .optimizer = replica.optimizer};
  for (auto& [name, buffer] : part.optimizer.buffers) {
    buffer = buffer.narrow(0, offset, mesh.stages[at]);
  }
  return part;
}

Status restore(const Workers& workers, const Recipe& recipe, const ModelState& state) {
  const ModelShape& shape = workers.front()->compute()->stage().model().shape();
  const MeshSize mesh = mesh_size(recipe, shape.vocabulary);
  for (const auto& worker : workers) {
    const StageState part = part_of(state, mesh, worker->id());
    LEEWAY_TRY(worker->compute()->restore(part.weights, part.optimizer));
  }
  return {};
}

}  // namespace leeway
