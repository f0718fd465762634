#include "pipeline/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "base/check.h"
#include "model/saved_bytes.h"
#include "model/views.h"

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

double moment_bytes(const StageOptions& stage, double master) {
  const double moments = stage.update.rule == UpdateRule::kSgd ? 1 : 2;
  return moments * (stage.update.moments == MomentType::kBf16 ? master / 2 : master);
}

double optimizer_bytes(const StageOptions& stage, const ParameterLayout& layout, double master) {
  const double moments = moment_bytes(stage, master);
  if (stage.update.rule != UpdateRule::kMuon) return moments;
  const auto buffers = at::TensorOptions().dtype(stage.master).device(stage.device);
  return moments + muon_scratch_elements(layout) * bytes_of(newton_schulz_type(buffers));
}

// Of one microbatch between its forward and its backward, as it is before the backward.
double microbatch_bytes(const StageOptions& stage, const MicrobatchSize& size) {
  return saved_bytes(stage.shape, stage.slice, size) + head_bytes(stage.shape, stage.slice, size);
}

// Activations that the next stage has yet to take, and gradients that this one has: what is in
// flight here and not there.
double queued_bytes(const StageOptions& stage, const MicrobatchSize& size, int64_t messages) {
  const auto numbers = static_cast<double>(std::max<int64_t>(0, messages) * stage.shape.width);
  return numbers * static_cast<double>(size.number_bytes) * static_cast<double>(size.tokens);
}

// A slot has room for a whole backward, and for the gradient that it begins with; and each slot has
// memory of its own, whose pieces are not filled to their ends.
double slot_bytes(const StageOptions& stage, const MicrobatchSize& size) {
  constexpr double kUnfilled = 1.15;
  const double gradient = stage.slice.heads ? 0 : queued_bytes(stage, size, 1);
  return kUnfilled *
         (microbatch_bytes(stage, size) + passing_bytes(stage.shape, stage.slice, size) + gradient);
}

// Of a forward that keeps nothing, at most: one block, or the head.
double evaluating_bytes(const StageOptions& stage, const MicrobatchSize& size) {
  StageSlice block = stage.slice;
  block.layers = 1;
  return saved_bytes(stage.shape, block, size) + loss_bytes(stage.shape, stage.slice, size);
}

// Of one that is not being worked on.
double waiting_bytes(const StageOptions& stage, const MicrobatchSize& size) {
  if (stage.graphs) return slot_bytes(stage, size);
  if (!stage.recompute) return microbatch_bytes(stage, size);
  // The targets wait with the inputs.
  const double targets = stage.slice.heads ? 8.0 * static_cast<double>(size.tokens) : 0;
  return input_bytes(stage.shape, stage.slice, size) + targets;
}

// Numbers of a buffer from make_flat(): the head of a GPU's copies and gradients is padded.
double flat_numbers(const StageOptions& stage, int64_t parameters) {
  const int64_t rows = padded_vocabulary(stage.shape, stage.device) - stage.shape.vocabulary;
  return static_cast<double>(parameters + (stage.slice.heads ? rows * stage.shape.width : 0));
}

// Buffers that live only between two microbatches: the activations of the last one are free then.
double boundary_bytes(const StageOptions& stage, bool samples, double master, double averaging) {
  double most = averaging;
  // A guess in another type is summed before it is rounded.
  if (stage.horizon > 0 && stage.compute != stage.master) most = std::max(most, master);
  // The CPU makes the differences that a sample sums up (kernels/norms.cpp).
  if (samples && stage.device.is_cpu()) most = std::max(most, master);
  return most;
}

// cuBLAS has this for each worker's stream, with the setting that makes it repeatable
// (run/device.cpp); and for the stream on which its graphs are made.
double library_bytes(const StageOptions& stage) {
  constexpr double kCublas = 8 * 4096 * 1024.0;
  if (stage.device.is_cpu()) return 0;
  return stage.graphs ? 2 * kCublas : kCublas;
}

// With a stash on the host, the device has what forwards use and what the next backward uses.
void place_versions(const StageOptions& stage, double copy, StageMemory& need) {
  constexpr int64_t kOnDevice = 2;
  const bool moves = stage.stash_on == StashPlace::kHost;
  const int64_t there = moves ? std::min(need.version_count, kOnDevice) : need.version_count;
  const auto moved = static_cast<double>(need.version_count - there);
  need.versions = static_cast<double>(there) * copy;
  const double plain = static_cast<double>(need.parameters) * bytes_of(stage.compute);
  if (stage.device.is_cpu()) {
    need.versions += moved * plain;
  } else {
    // LibTorch rounds pinned memory up to a power of two.
    need.host = moved * std::exp2(std::ceil(std::log2(plain)));
  }
}

// A stage's order of work without flush points, as far as its versions depend on it.
struct Order {
  int64_t warmup = 0;        // W
  int64_t update_every = 1;  // K
  bool by_horizon = false;
  Boundaries boundaries = {};
};

// The microbatches whose forwards are the first to run on a version, ascending, until the pipeline
// has been full for whole updates. After b backwards comes the forward of microbatch b + W.
std::vector<int64_t> first_on_a_version(const Order& order) {
  const auto& [warmup, every, by_horizon, boundaries] = order;
  const int64_t guesses = std::min(boundaries.guesses, warmup);
  std::vector<int64_t> firsts;
  for (int64_t update = 0; update < warmup / every + 3; ++update) {
    const int64_t begin = update == 0 ? 0 : update * every + warmup;
    const int64_t end = (update + 1) * every + warmup;
    firsts.push_back(begin);
    if (boundaries.merge_position > 0) {
      firsts.push_back(update * every + boundaries.merge_position + warmup);
    }
    // The delay is one more from there on, and so is how far it looks ahead.
    const int64_t later = (begin / every + 1) * every;
    for (int64_t m = later; by_horizon && m < end; m += every) firsts.push_back(m);
    for (int64_t guess = 0; guess < guesses; ++guess) {  // of the W late forwards
      firsts.push_back((update + 1) * every + (guess * warmup + guesses - 1) / guesses);
    }
  }
  std::ranges::sort(firsts);
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  return firsts;
}

// Most versions that any W + 1 microbatches in a row hold.
int64_t most_in_flight(const Order& order) {
  const std::vector<int64_t> firsts = first_on_a_version(order);
  size_t most = 1;
  size_t oldest = 0;
  for (size_t newest = 0; newest < firsts.size(); ++newest) {
    while (oldest < newest && firsts[oldest + 1] <= firsts[newest] - order.warmup) ++oldest;
    most = std::max(most, newest - oldest + 1);
  }
  return static_cast<int64_t>(most);
}

// The same in a time that does not grow with the depth: a pipeline that is deeper by whole updates
// has the versions of these updates more.
int64_t versions_in_flight(Order order) {
  constexpr int64_t kUpdates = 4;  // of depth: from there on each adds the same
  const int64_t deeper = order.warmup / order.update_every - kUpdates;
  if (deeper <= 0) return most_in_flight(order);
  order.warmup -= deeper * order.update_every;
  const int64_t base = most_in_flight(order);
  order.warmup += order.update_every;
  return base + deeper * (most_in_flight(order) - base);
}

int64_t in_flight_max(const PipelineShape& shape, int64_t stage, const MemoryLoad& load) {
  const int64_t available =
      shape.synchronous() ? shape.update_every : std::max<int64_t>(1, load.run_microbatches);
  return std::min(Schedule(shape, {stage}).warmup() + 1, available);
}

// A checkpoint needs two copies of weights, moments, last update and averaging's buffers until it
// is written. On a GPU they are in the host's memory.
double saving_bytes(const StageOptions& stage, double master, double averaging, bool any_ahead) {
  if (!stage.device.is_cpu()) return 0;
  const double buffers = moment_bytes(stage, master) + (any_ahead ? 2 : 1) * master;
  return 2 * (buffers + averaging);
}

struct EvaluationBytes {
  double on_the_way = 0;
  double at_the_end = 0;  // when nothing is in flight
};

// Compute copies of what is evaluated. The copies of all replicas are collected where their mean is
// made; on the way they come rounded.
EvaluationBytes evaluation_bytes(const StageOptions& stage, const MemoryLoad& load, double master,
                                 double copy) {
  EvaluationBytes bytes = {.on_the_way = static_cast<double>(load.evaluations_pending) * copy,
                           .at_the_end = copy};
  if (load.replicas == 1) return bytes;
  const auto replicas = static_cast<double>(load.replicas);
  const double rounded = stage.master == at::kFloat ? master / 2 : 0;
  if (load.evaluates_means) bytes.on_the_way += replicas * (master + rounded) + master;
  bytes.at_the_end += (replicas + 1) * master;
  return bytes;
}

}  // namespace

double StageMemory::total() const {
  return weights + gradients + optimizer + last_update + versions + activations + evaluation +
         averaging + passing + working;
}

int64_t version_count_max(const Schedule& schedule, const StageOptions& stage,
                          const Boundaries& boundaries) {
  if (boundaries.merge_position == Boundaries::kAnywhere) {
    // Places from one end of an update to the other: at the ends it is next to other boundaries.
    constexpr int64_t kPlaces = 32;
    const int64_t last = schedule.update_every() - 1;
    const int64_t places = std::min(kPlaces, last);
    int64_t most = version_count_max(schedule, stage, {.guesses = boundaries.guesses});
    for (int64_t place = 0; place < places; ++place) {
      const int64_t position = places == 1 ? 1 : 1 + place * (last - 1) / (places - 1);
      most = std::max(
          most, version_count_max(schedule, stage,
                                  {.guesses = boundaries.guesses, .merge_position = position}));
    }
    return most;
  }
  const int64_t delay_max = schedule.delay_max();
  if (!stage.stash) {  // only the newest weights
    if (boundaries.guesses > 0) return 1 + std::min(boundaries.guesses, schedule.warmup());
    // While the pipeline fills, the first weights are extrapolated by every possible delay.
    return stage.horizon > 0 ? delay_max + 1 : 1;
  }
  const int64_t warmup = schedule.warmup();
  if (delay_max > 0) {
    return versions_in_flight({warmup, schedule.update_every(), stage.horizon > 0, boundaries});
  }
  // Every update flushes, or nothing runs ahead: only a merge inside an update makes another one.
  const bool merges = boundaries.merge_position > 0 && warmup > 0 &&
                      warmup + boundaries.merge_position < schedule.update_every();
  return merges ? 2 : 1;
}

std::vector<StageMemory> plan_memory(const std::vector<StageOptions>& stages,
                                     const PipelineShape& shape, const MemoryLoad& load) {
  LEEWAY_CHECK(std::ssize(stages) == shape.stages, "options for every stage");
  const bool any_ahead = std::any_of(stages.begin(), stages.end(),
                                     [](const StageOptions& stage) { return stage.horizon > 0; });
  std::vector<StageMemory> plan;
  for (const StageOptions& stage : stages) {
    const int64_t index = std::ssize(plan);
    const Schedule schedule(shape, {index});
    const ParameterLayout layout = slice_layout(stage.shape, stage.slice);
    const MicrobatchSize size = {
        .tokens = load.microbatch_tokens,
        .number_bytes = static_cast<int64_t>(c10::elementSize(stage.compute)),
        .device = stage.device};
    StageMemory need;
    need.parameters = parameter_count(layout);
    need.in_flight = in_flight_max(shape, index, load);
    need.version_count = std::min(version_count_max(schedule, stage, load.boundaries),
                                  need.in_flight + 1);  // and the newest

    const double flat = flat_numbers(stage, need.parameters);
    const double master = static_cast<double>(need.parameters) * bytes_of(stage.master);
    const double copy = flat * bytes_of(stage.compute);
    need.weights = master;
    need.gradients = flat * bytes_of(stage.master);
    need.optimizer = optimizer_bytes(stage, layout, master);
    need.last_update = stage.horizon > 0 ? master : 0;
    place_versions(stage, copy, need);
    need.activations = static_cast<double>(need.in_flight) * waiting_bytes(stage, size);
    AveragingMemory averaging;
    if (!load.averaging.empty()) averaging = load.averaging[plan.size()];
    const double rounds = averaging.flights + averaging.messages;
    need.averaging = averaging.buffers + rounds + averaging.answers;
    need.shared = averaging.answers;

    const bool samples = schedule.delay_max() > 0;
    const double whole = microbatch_bytes(stage, size);
    const double boundary = boundary_bytes(stage, samples, master, averaging.working);
    const double passing = passing_bytes(stage.shape, stage.slice, size);
    need.working = std::max(passing, boundary - whole) + whole - waiting_bytes(stage, size);
    // What graphs use is never free for anything else, such as an evaluation.
    if (stage.graphs) need.working = std::max(boundary, evaluating_bytes(stage, size));
    const int64_t next =
        index + 1 < shape.stages ? in_flight_max(shape, index + 1, load) : need.in_flight;
    // A prediction sample keeps the weights it started with, and its guess.
    const double held = (samples ? 2 * copy : 0) + queued_bytes(stage, size, need.in_flight - next);
    // Nothing is in flight where a run is saved, or evaluated for the last time.
    const double free = rounds + (stage.graphs ? boundary : need.activations + need.working);
    const double saving = saving_bytes(stage, master, averaging.buffers, any_ahead) - free;
    const double most = std::max(held, saving);
    need.passing = library_bytes(stage) + most;
    // What evaluation takes beyond that: it has gone by the time a run is saved.
    const EvaluationBytes evaluation = evaluation_bytes(stage, load, master, copy);
    need.evaluation =
        std::max({most, held + evaluation.on_the_way, evaluation.at_the_end - free}) - most;
    plan.push_back(need);
  }
  return plan;
}

StageMemory& StageMemory::operator+=(const StageMemory& other) {
  parameters += other.parameters;
  version_count += other.version_count;
  in_flight += other.in_flight;
  weights += other.weights;
  gradients += other.gradients;
  optimizer += other.optimizer;
  last_update += other.last_update;
  versions += other.versions;
  activations += other.activations;
  evaluation += other.evaluation;
  averaging += other.averaging;
  shared += other.shared;
  passing += other.passing;
  working += other.working;
  host += other.host;
  return *this;
}

StageMemory worker_memory(const StageMemory& stage, bool evaluates, bool alone) {
  StageMemory worker = stage;
  if (!evaluates) worker.parameters = 0;
  if (!evaluates) worker.evaluation = 0;
  if (alone) return worker;
  worker.averaging -= worker.shared;
  worker.shared = 0;
  return worker;
}

StageMemory together(std::vector<StageMemory> workers, int64_t computing) {
  std::ranges::sort(workers, std::ranges::greater(), &StageMemory::working);
  StageMemory sum = {.version_count = 0, .in_flight = 0};
  for (StageMemory& worker : workers) {
    if (--computing < 0) worker.working = 0;
    sum += worker;
  }
  return sum;
}

std::vector<StageMemory> all_workers(const std::vector<StageMemory>& stages, int64_t replicas) {
  std::vector<StageMemory> workers;
  for (int64_t replica = 0; replica < replicas; ++replica) {
    for (const StageMemory& stage : stages) {
      workers.push_back(worker_memory(stage, replica == 0, replica == 0));
    }
  }
  return workers;
}

StageMemory together(const std::vector<StageMemory>& stages) {
  return together(stages, std::ssize(stages));
}

}  // namespace leeway
