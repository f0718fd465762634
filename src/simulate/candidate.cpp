#include "simulate/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/human.h"
#include "pipeline/depth_plan.h"
#include "recipe/averaging_costs.h"
#include "recipe/lane_options.h"
#include "recipe/planned_memory.h"
#include "recipe/stage_costs.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

constexpr int64_t kExtraMax = 1000;      // the key's maximum
constexpr double kAveragingShare = 0.5;  // share of the time between rounds that sending may take
constexpr int64_t kIntervalMax = 4096;
// Fractions that do better than the usual 0.05 if rounds are fast (docs/results/averaging.md).
constexpr double kLargerFractions[] = {0.25, 0.1};
constexpr double kFewInFlight = 0.5;  // rounds per weight; from about two on they do harm

// What the plan chooses, as overrides of the scenario's recipe.
struct Decisions {
  MeshChoice choice;
  int64_t extra_per_hop = 0;
  bool recompute = false;
  int64_t interval = 0;  // 0: the recipe's
  double fraction = 0;   // 0: the recipe's

  int64_t update_every() const { return (choice.stages - 1) * (1 + extra_per_hop) + 1; }
  std::vector<std::string> sets() const {
    std::vector<std::string> sets = {
        fmt::format("mesh.stages={}", choice.stages),
        fmt::format("mesh.replicas={}", choice.replicas),
        "pipeline.schedule=async",
        "pipeline.update_every=auto",
        "pipeline.lookahead=auto",
        "pipeline.refresh=auto",
        "pipeline.horizon=auto",
        "sim.speeds=[]",
        fmt::format("pipeline.extra_per_hop={}", extra_per_hop),
        fmt::format("pipeline.recompute={}", recompute),
        fmt::format("data.batch={}", choice.microbatch * update_every())};
    if (interval > 0) sets.push_back(fmt::format("averaging.interval={}", interval));
    if (fraction > 0) sets.push_back(fmt::format("averaging.fraction={}", fraction));
    return sets;
  }
};

// Time for bytes over the slowest of link and lines, each shared by `streams` streams.
double seconds_between(const Cluster& cluster, size_t from, size_t to, double bytes,
                       double streams) {
  if (from == to) return 0;
  double seconds = 0;
  const auto through = [&](double rate, double load) {
    if (rate > 0) seconds = std::max(seconds, load / rate);
  };
  const sim::LinkOptions& link = cluster.link(from, to);
  through(link.bytes_per_second, bytes);
  through(cluster.lines[from].up_bytes_per_second, bytes * streams);
  through(cluster.lines[to].down_bytes_per_second, bytes * streams);
  if (link.trace != nullptr) {
    constexpr int64_t kOften = 100;
    const auto all = static_cast<int64_t>(bytes) * kOften;
    through(1, link.trace->end_of_transfer({0}, all).seconds() / kOften);
  }
  return seconds;
}

Nanos latency_between(const Cluster& cluster, size_t from, size_t to) {
  if (from == to) return {0};
  const sim::LinkOptions& link = cluster.link(from, to);
  return (link.trace != nullptr ? link.trace->latency({0}) : link.latency) + link.jitter;
}

// Times of one replica's pipeline; the longest hop stands for all.
PipelineTimes times_of(const PlanInputs& inputs, const Recipe& recipe, const Placement& placement,
                       size_t replica) {
  const Cluster& cluster = inputs.cluster;
  const std::vector<sim::StageCosts> unit = unit_costs(recipe, inputs.vocabulary);
  const size_t stages = unit.size();
  const StageOptions first = stage_options(recipe, inputs.vocabulary, StagesFor::kPlan).front();
  const auto bytes = static_cast<double>(stage_wire(recipe, first).bytes() + sim::kHeaderBytes);
  PipelineTimes times;
  for (size_t s = 0; s < stages; ++s) {
    const size_t here = placement[replica * stages + s];
    const Machine& machine = cluster.machines[here];
    const double cores = static_cast<double>(machine.cores > 0 ? machine.cores : machine.workers);
    const double sharing = std::max(1.0, static_cast<double>(machine.workers) / cores);
    const sim::StageCosts costs = sim::at_speed(costs_on(machine, unit[s]), 1 / sharing);
    times.stages.push_back({costs.forward, costs.backward, costs.update});
    if (s == 0) continue;
    const size_t before = placement[replica * stages + s - 1];
    const double streams = stages > 2 ? 2 : 1;  // activations one way, gradients the other
    const double transfer = seconds_between(cluster, before, here, bytes, streams);
    times.hop.transfer = std::max(times.hop.transfer, Nanos::rounded(transfer * 1e9));
    times.hop.latency = std::max(times.hop.latency, latency_between(cluster, before, here));
  }
  return times;
}

// Bytes missing on the machine that lacks the most; 0 or less: it fits.
struct Lack {
  double bytes = 0;
  std::string sentence = {};
};
Lack memory_lack(const PlanInputs& inputs, const Recipe& recipe, const Placement& placement) {
  const std::vector<StageMemory> stages = planned_memory(recipe, inputs.vocabulary);
  std::map<size_t, double> need;  // by machine
  for (size_t at = 0; at < placement.size(); ++at)
    need[placement[at]] += stages[at % stages.size()].total();
  Lack most = {.bytes = -1};
  for (const auto& [machine, bytes] : need) {
    const Machine& has = inputs.cluster.machines[machine];
    const double lack = bytes - has.memory_bytes;
    if (lack <= most.bytes) continue;
    most = {lack, fmt::format("with {} stage{} and microbatches of {}, {} would need {} but has {}",
                              recipe.mesh.stages, recipe.mesh.stages == 1 ? "" : "s",
                              microbatch_sequences(recipe), has.name, shown_bytes(bytes),
                              shown_bytes(has.memory_bytes))};
  }
  return most;
}

// Latency of a round, and how long it keeps lines busy, in the worst case.
struct RoundTimes {
  double sending = 0;
  double latency = 0;
};
RoundTimes round_times(const PlanInputs& inputs, const Recipe& recipe, const Placement& placement) {
  RoundTimes times;
  const AveragingTraffic traffic = averaging_traffic(recipe, inputs.vocabulary);
  const auto stages = static_cast<size_t>(recipe.mesh.stages);
  const auto replicas = static_cast<size_t>(recipe.mesh.replicas);
  const auto others = static_cast<double>(replicas - 1);
  for (size_t s = 0; s < std::min(stages, traffic.stages.size()); ++s) {
    const double bytes = traffic.stages[s].round_bytes;
    for (size_t r = 1; r < replicas; ++r) {
      // Neighbouring replicas stand for all pairs, and pairs with the first for distant ones.
      for (const size_t other : {size_t{0}, r - 1}) {
        const size_t from = placement[other * stages + s];
        const size_t to = placement[r * stages + s];
        const double seconds = seconds_between(inputs.cluster, from, to, bytes / others, others);
        times.sending = std::max(times.sending, seconds);
        times.latency =
            std::max(times.latency, latency_between(inputs.cluster, from, to).seconds());
      }
    }
  }
  return times;
}

// Updates between rounds such that lines can carry them and merging stays stable, and how many
// rounds per weight are then in flight.
struct RoundPlan {
  int64_t interval = 1;
  double in_flight = 0;
};
RoundPlan plan_rounds(const PlanInputs& inputs, const Recipe& recipe, const Placement& placement,
                      double update_seconds) {
  const RoundTimes times = round_times(inputs, recipe, placement);
  const double between = times.sending / (kAveragingShare * update_seconds);
  auto interval =
      static_cast<int64_t>(std::clamp(std::ceil(between), 1.0, static_cast<double>(kIntervalMax)));
  double lag = std::ceil((times.sending + 2 * times.latency) / update_seconds) + 1;
  if (recipe.averaging.merge == MergePolicy::kFixedLag) lag = std::max(lag, recipe.averaging.lag);
  StabilityOptions stability = stability_options(recipe, lag);
  stability.interval = interval;
  interval = std::max(interval, stable_interval(stability));
  stability.interval = std::min(interval, std::max<int64_t>(1, recipe.run.updates / 2));
  return {stability.interval, rounds_in_flight(stability)};
}

class Maker {
 public:
  Maker(const PlanInputs& inputs, const MeshChoice& choice) : inputs_(inputs) {
    decisions_.choice = choice;
  }

  std::variant<Candidate, Refusal> make() {
    if (auto refusal = load()) return *refusal;
    if (auto refusal = choose_depth()) return *refusal;
    if (auto refusal = fit_memory()) return *refusal;
    if (auto refusal = choose_rounds()) return *refusal;
    predict();
    return candidate_;
  }

 private:
  std::optional<Refusal> load() {
    const Result<LoadedRecipe> loaded = inputs_.scenario.recipe_with(decisions_.sets());
    if (!loaded.ok()) return Refusal{Refusal::Kind::kRecipe, loaded.error().message, 0};
    candidate_.choice = decisions_.choice;
    candidate_.recipe = *loaded;
    const auto placement = place(inputs_.cluster, order(), recipe().mesh, /*columns=*/false);
    if (!placement.ok()) return Refusal{Refusal::Kind::kRecipe, placement.error().message, 0};
    candidate_.placement = *placement;
    return std::nullopt;
  }

  // Workers with the whole model need no neighbours, so they get the fastest machines.
  std::vector<size_t> order() const {
    if (decisions_.choice.stages > 1) return inputs_.order;
    std::vector<size_t> fastest = inputs_.order;
    std::ranges::stable_sort(fastest, std::greater(), [&](size_t machine) {
      return inputs_.cluster.machines[machine].tflops;
    });
    return fastest;
  }

  int64_t tokens_at(int64_t extra) const {
    const MeshChoice& choice = decisions_.choice;
    const int64_t update_every = (choice.stages - 1) * (1 + extra) + 1;
    return choice.replicas * choice.microbatch * update_every * recipe().model.context;
  }

  // Enough for the worst replica's links, or as much as tokens_per_update allows.
  std::optional<Refusal> choose_depth() {
    const int64_t most = inputs_.scenario.options.tokens_per_update;
    if (tokens_at(0) > most) {
      return Refusal{Refusal::Kind::kTokens,
                     fmt::format("an update would have {} tokens, but simulate.tokens_per_update "
                                 "allows {}",
                                 tokens_at(0), most),
                     0};
    }
    if (recipe().mesh.stages == 1) return std::nullopt;
    int64_t extra = 0;
    for (int64_t r = 0; r < recipe().mesh.replicas; ++r) {
      const PipelineTimes times =
          times_of(inputs_, recipe(), candidate_.placement, static_cast<size_t>(r));
      const DepthPlan plan = plan_depth(times, decisions_.update_every());
      extra = std::max(extra, plan.extra_per_hop);
      if (plan.link_bound) candidate_.limit = "bandwidth";
      link_bound_ = link_bound_ || plan.link_bound;
    }
    extra = std::min(extra, kExtraMax);
    while (extra > 0 && tokens_at(extra) > most) {
      --extra;
      candidate_.limit = "latency";
    }
    decisions_.extra_per_hop = extra;
    return load();
  }

  // Tries recomputation first, which costs a third, before less depth.
  std::optional<Refusal> fit_memory() {
    while (true) {
      const Lack lack = memory_lack(inputs_, recipe(), candidate_.placement);
      if (lack.bytes <= 0) return std::nullopt;
      if (!recipe().pipeline.recompute && !decisions_.recompute) {
        decisions_.recompute = true;
      } else if (decisions_.extra_per_hop > 0) {
        decisions_.extra_per_hop /= 2;
      } else {
        return Refusal{Refusal::Kind::kMemory, lack.sentence, lack.bytes};
      }
      candidate_.limit = "memory";
      if (auto refusal = load()) return refusal;
    }
  }

  double update_seconds() const {
    double longest = 0;
    for (int64_t r = 0; r < recipe().mesh.replicas; ++r)
      longest = std::max(longest, slot_seconds(static_cast<size_t>(r)));
    return longest * static_cast<double>(recipe().pipeline.update_every);
  }

  // Time per microbatch on the slowest stage or the most crowded link.
  double slot_seconds(size_t replica) const {
    const PipelineTimes times = times_of(inputs_, recipe(), candidate_.placement, replica);
    const PipelineShape shape = pipeline_shape(recipe());
    const double slot = plan_depth(times, shape.update_every).slot.seconds();
    return slot / busy_share(shape, times);
  }

  RoundPlan rounds() const {
    return plan_rounds(inputs_, recipe(), candidate_.placement, update_seconds());
  }

  // A larger fraction than the recipe's if lines and memory have room for it after every update and
  // few rounds would be in flight; otherwise the recipe's fraction, as often as lines allow.
  std::optional<Refusal> choose_rounds() {
    const AveragingMethod method = recipe().averaging.method;
    if (recipe().mesh.replicas == 1 || method != AveragingMethod::kSparse) return std::nullopt;
    if (!link_bound_ && !candidate_.recipe.is_given("averaging.fraction")) {
      for (const double fraction : kLargerFractions) {
        decisions_.fraction = fraction;
        if (auto refusal = load()) return refusal;
        const RoundPlan plan = rounds();
        const bool has_room = memory_lack(inputs_, recipe(), candidate_.placement).bytes <= 0;
        if (plan.interval > 1 || plan.in_flight > kFewInFlight || !has_room) continue;
        decisions_.interval = 1;
        return load();
      }
      decisions_.fraction = 0;
      if (auto refusal = load()) return refusal;
    }
    decisions_.interval = rounds().interval;
    return load();
  }

  // Time per update spent waiting for synchronous rounds, whose bytes go out and come back.
  double waiting_seconds() const {
    const AveragingOptions& averaging = recipe().averaging;
    const bool waits = averaging.method == AveragingMethod::kAllreduce ||
                       averaging.method == AveragingMethod::kWeights ||
                       (averaging.method == AveragingMethod::kDiloco && averaging.lag == 0);
    if (recipe().mesh.replicas == 1 || !waits) return 0;
    const RoundTimes times = round_times(inputs_, recipe(), candidate_.placement);
    const auto every = static_cast<double>(std::max<int64_t>(1, averaging.interval));
    return (times.sending + 2 * times.latency) / every;
  }

  void predict() {
    const auto tokens = static_cast<double>(decisions_.choice.microbatch * recipe().model.context);
    const double waiting = waiting_seconds() / static_cast<double>(recipe().pipeline.update_every);
    double longest = 0;
    for (int64_t r = 0; r < recipe().mesh.replicas; ++r) {
      const double slot = slot_seconds(static_cast<size_t>(r));
      candidate_.predicted += tokens / (slot + waiting);
      longest = std::max(longest, slot);
    }
    if (waiting > longest) candidate_.limit = "averaging";
    if (candidate_.limit.empty()) candidate_.limit = "compute";
  }

  const Recipe& recipe() const { return candidate_.recipe.recipe; }

  const PlanInputs& inputs_;
  Decisions decisions_;
  Candidate candidate_;
  bool link_bound_ = false;  // the pipeline needs all of some line's bandwidth
};

}  // namespace

std::variant<Candidate, Refusal> make_candidate(const PlanInputs& inputs,
                                                const MeshChoice& choice) {
  return Maker(inputs, choice).make();
}

}  // namespace leeway
