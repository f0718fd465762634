#include "pipeline/memory_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "model/saved_bytes.h"

namespace leeway {
namespace {

double bytes_of(at::ScalarType type) { return static_cast<double>(c10::elementSize(type)); }

// Muon orthogonalizes matrices of one shape together, up to this many elements (optim/muon.cpp),
// with two buffers for them and two for their squares.
double muon_scratch_elements(const ParameterLayout& layout) {
  constexpr int64_t kBatchElements = int64_t{1} << 24;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const Parameter& parameter : layout) {
    if (parameter.kind == ParameterKind::kMatrix) ++counts[{parameter.rows, parameter.cols}];
  }
  double matrices = 0;
  double squares = 0;
  for (const auto& [shape, count] : counts) {
    const auto elements = static_cast<double>(shape.first) * static_cast<double>(shape.second);
    const int64_t batch_max = std::max<int64_t>(1, kBatchElements / (shape.first * shape.second));
    const auto batch = static_cast<double>(std::min(count, batch_max));
    const auto smaller = static_cast<double>(std::min(shape.first, shape.second));
    matrices = std::max(matrices, batch * elements);
    squares = std::max(squares, batch * smaller * smaller);
  }
  return 2 * matrices + 2 * squares;
}

double optimizer_bytes(const StageOptions& stage, const ParameterLayout& layout, double master) {
  const double moments = stage.update.rule == UpdateRule::kSgd ? 1 : 2;
  if (stage.update.rule != UpdateRule::kMuon) return moments * master;
  const auto buffers = at::TensorOptions().dtype(stage.master).device(stage.device);
  return moments * master + muon_scratch_elements(layout) * bytes_of(newton_schulz_type(buffers));
}

double activation_bytes(const StageOptions& stage, const MicrobatchSize& size, int64_t in_flight) {
  const double whole =
      saved_bytes(stage.shape, stage.slice, size) + loss_bytes(stage.shape, stage.slice, size);
  const auto count = static_cast<double>(in_flight);
  if (!stage.recompute) return count * whole;
  // The targets are kept with the inputs, because the loss is recomputed too.
  const double targets = stage.slice.heads ? 8.0 * static_cast<double>(size.tokens) : 0;
  return count * (input_bytes(stage.shape, stage.slice, size) + targets) + whole;
}

// Along the microbatches the version changes where m = W (mod K), the delay where m = 0 (mod K):
// twice per update, and once or twice more in the rest of W beyond whole updates.
int64_t versions_by_horizon(int64_t warmup, int64_t update_every) {
  const int64_t whole = warmup / update_every;
  const int64_t rest = warmup % update_every;
  if (rest == 0) return whole + 1;
  return 1 + 2 * whole + (update_every - rest < rest ? 2 : 1);
}

// W < K: of the K forwards on an update's weights, forward j is late from j = K - W on, and late
// forward i of W runs at guess 1 + i guesses / W. Until j = W, some forwards of the previous update
// are in flight.
int64_t versions_by_guesses(int64_t warmup, int64_t update_every, int64_t guesses) {
  guesses = std::min(guesses, warmup);
  const int64_t first_late = update_every - warmup;
  const auto guess = [&](int64_t late) { return 1 + late * guesses / warmup; };
  int64_t most = 0;
  for (int64_t j = 0; j < update_every; ++j) {
    const int64_t older = j < warmup ? guesses - guess(j) + 1 : 0;
    const int64_t newest = 1 + (j < first_late ? 0 : guess(j - first_late));
    most = std::max(most, older + newest);
  }
  return most;
}

}  // namespace

double StageMemory::total() const {
  return weights + gradients + optimizer + last_update + versions + activations + evaluation +
         averaging + passing;
}

int64_t version_count_max(const Schedule& schedule, const StageOptions& stage, int64_t guesses) {
  const int64_t delay_max = schedule.delay_max();
  if (delay_max == 0) return 1;
  const bool by_horizon = stage.horizon > 0;
  if (!stage.stash) {
    if (guesses > 0) return 1 + std::min(guesses, schedule.warmup());
    // While the pipeline fills, the first weights are extrapolated by every possible delay.
    return by_horizon ? delay_max + 1 : 1;
  }
  if (guesses > 0) return versions_by_guesses(schedule.warmup(), schedule.update_every(), guesses);
  if (by_horizon) return versions_by_horizon(schedule.warmup(), schedule.update_every());
  return delay_max + 1;
}

std::vector<StageMemory> plan_memory(const std::vector<StageOptions>& stages,
                                     const PipelineShape& shape, const MemoryLoad& load) {
  LEEWAY_CHECK(std::ssize(stages) == shape.stages, "options for every stage");
  const bool any_ahead = std::any_of(stages.begin(), stages.end(),
                                     [](const StageOptions& stage) { return stage.horizon > 0; });
  std::vector<StageMemory> plan;
  for (const StageOptions& stage : stages) {
    const Schedule schedule(shape, {std::ssize(plan)});
    const ParameterLayout layout = slice_layout(stage.shape, stage.slice);
    const MicrobatchSize size = {
        .tokens = load.microbatch_tokens,
        .number_bytes = static_cast<int64_t>(c10::elementSize(stage.compute))};
    StageMemory need;
    need.parameters = parameter_count(layout);
    need.version_count = version_count_max(schedule, stage, load.guesses);
    const int64_t available =
        shape.synchronous() ? shape.update_every : std::max<int64_t>(1, load.run_microbatches);
    need.in_flight = std::min(schedule.warmup() + 1, available);
    need.version_count = std::min(need.version_count, need.in_flight + 1);  // and the newest

    const double master = static_cast<double>(need.parameters) * bytes_of(stage.master);
    const double copy = static_cast<double>(need.parameters) * bytes_of(stage.compute);
    need.weights = master;
    need.gradients = master;
    need.optimizer = optimizer_bytes(stage, layout, master);
    need.last_update = stage.horizon > 0 ? master : 0;
    need.versions = static_cast<double>(need.version_count) * copy;
    need.activations = activation_bytes(stage, size, need.in_flight);
    need.evaluation = static_cast<double>(load.evaluations_pending) * copy;
    // The weights of all replicas are collected where their mean is evaluated.
    if (load.replicas > 1) need.evaluation += static_cast<double>(load.replicas) * master;
    AveragingMemory averaging;
    if (!load.averaging.empty()) averaging = load.averaging[plan.size()];
    need.averaging = averaging.buffers + averaging.flights + averaging.answers;

    // A prediction sample keeps the weights it started with, and its guess.
    const double sample = schedule.delay_max() > 0 ? 2 * master : 0;
    const double running = passing_bytes(stage.shape, stage.slice, size) + sample;
    // A checkpoint needs two copies of weights, moments, last update and averaging's buffers until
    // it is written; nothing is in flight by then.
    const double buffers = (stage.update.rule == UpdateRule::kSgd ? 2 : 3) + (any_ahead ? 1 : 0);
    const double saving = 2 * (buffers * master + averaging.buffers) - averaging.flights -
                          need.activations - (need.versions - copy);
    need.passing = std::max(running, saving);
    plan.push_back(need);
  }
  return plan;
}

StageMemory together(const std::vector<StageMemory>& stages, int64_t replicas) {
  StageMemory sum = {.version_count = 0, .in_flight = 0};
  const auto times = static_cast<double>(replicas);
  for (const StageMemory& stage : stages) {
    sum.parameters += stage.parameters;
    sum.version_count += replicas * stage.version_count;
    sum.in_flight += replicas * stage.in_flight;
    sum.weights += times * stage.weights;
    sum.gradients += times * stage.gradients;
    sum.optimizer += times * stage.optimizer;
    sum.last_update += times * stage.last_update;
    sum.versions += times * stage.versions;
    sum.activations += times * stage.activations;
    sum.evaluation += stage.evaluation;
    sum.averaging += times * stage.averaging;
    sum.passing += times * stage.passing;
  }
  return sum;
}

}  // namespace leeway
