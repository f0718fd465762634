#include "recipe/averaging_costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "recipe/lane_options.h"
#include "recipe/stage_options.h"
#include "worker/chunk_log.h"

namespace leeway {
namespace {

// By default the copies for evaluation are at most this share of the bytes of averaging.
constexpr double kCopiesShare = 0.1;
constexpr int64_t kFlightsOnArrival = 4;  // a guess: more where links are slower than updates

// Values in a round, averaged over a cycle.
double round_numbers(const LaneOptions& lane) {
  return static_cast<double>(lane.cut.parameters) / static_cast<double>(Cut(lane.cut).parts());
}

// Bytes to send a round's values once. Formats with blocks start new ones in every chunk.
double encoded_round(const LaneOptions& lane, at::ScalarType type) {
  const double numbers = round_numbers(lane);
  const auto chunk = static_cast<int64_t>(numbers / static_cast<double>(lane.chunks));
  if (chunk == 0) return 0;
  return static_cast<double>(encoded_bytes(lane.wire, chunk, type)) / static_cast<double>(chunk) *
         numbers;
}

// The same as messages carry it.
double message_round(const LaneOptions& lane, const StageOptions& stage) {
  const double numbers = round_numbers(lane);
  const auto chunk = static_cast<int64_t>(numbers / static_cast<double>(lane.chunks));
  if (chunk == 0) return 0;
  const int64_t bytes = packed_bytes(lane.wire, lane.lowbit.threshold, chunk, stage.master);
  return static_cast<double>(bytes) / static_cast<double>(chunk) * numbers;
}

// Flat buffers of the stage's size that the rules keep throughout: must match AveragingCompute.
int64_t buffer_count(const LaneOptions& lane) {
  const auto one_if = [](bool needed) { return needed ? 1 : 0; };
  if (lane.payload == RoundPayload::kGradients) return 0;
  if (lane.payload == RoundPayload::kWeights)
    return one_if(lane.merge.has_ema()) + 2 * one_if(lane.merge.has_outer());
  // Steps: the common model, what is under way, and the owner's residual.
  return 3 + one_if(lane.lowbit.smoothing != 0) + one_if(lane.lowbit.gain != 0);
}

// Memory of a round in flight: what was sent; steps as they were sent.
double flight_bytes(const LaneOptions& lane, at::ScalarType type) {
  if (lane.payload == RoundPayload::kSteps) return encoded_round(lane, type);
  if (lane.payload == RoundPayload::kGradients) return 0;
  return round_numbers(lane) * static_cast<double>(c10::elementSize(type));
}

// A round on its way to the owners, if nothing above is the same tensor.
double message_bytes(const LaneOptions& lane, at::ScalarType type) {
  const bool own = lane.payload == RoundPayload::kWeights && lane.wire != WireFormat::kF32;
  return own ? encoded_round(lane, type) : 0;
}

// In updates, rounded up.
int64_t whole_lag(const Recipe& recipe) {
  return static_cast<int64_t>(std::ceil(recipe.averaging.lag));
}

// While an owner has the parts of a chunk decoded, with their mean and what becomes of it.
// Gradients are on their way only then: everybody waits for their mean.
double working_bytes(const LaneOptions& lane, int64_t replicas, at::ScalarType type) {
  const double chunk = round_numbers(lane) / static_cast<double>(lane.chunks);
  const double sent = lane.payload == RoundPayload::kGradients ? encoded_round(lane, type) : 0;
  return sent +
         static_cast<double>(replicas + 2) * chunk * static_cast<double>(c10::elementSize(type));
}

// Every member of a common model keeps answers in case another one lacks them.
double answer_bytes(const Recipe& recipe, const LaneOptions& lane, const StageOptions& stage) {
  if (lane.payload != RoundPayload::kSteps) return 0;
  const double whole = round_numbers(lane) * static_cast<double>(c10::elementSize(stage.master));
  std::optional<int64_t> lag;
  if (recipe.averaging.merge == MergePolicy::kFixedLag) lag = whole_lag(recipe);
  const double answer = encoded_round(lane, stage.master);
  // A worker on a GPU has them as they are.
  const double held = stage.device.is_cpu() ? message_round(lane, stage) : answer;
  const int64_t rounds = std::min(recipe.run.updates / round_interval(recipe) + 1, ChunkLog::kKept);
  return std::min(ChunkLog::worth_keeping(whole, answer, lag), static_cast<double>(rounds) * held);
}

// Bytes of the copies for one evaluation of a mean, over all replicas.
struct CopyBytes {
  double on_the_way = 0;  // rounded, fp32 to bf16
  double at_the_end = 0;  // the final model's, as they are
};

// From the recipe alone, so that every worker and every session agrees. The last evaluation is of
// the mean whatever it costs; earlier ones as often as the rest of their share allows.
int64_t mean_interval(const RunOptions& run, double averaging_bytes, const CopyBytes& copies) {
  const bool automatic = run.evaluate_mean_every < 0;
  if (run.evaluate_every == 0 || run.evaluate_mean_every == 0) return run.updates;
  if (!automatic) return run.evaluate_mean_every;
  const double left = kCopiesShare * averaging_bytes - copies.at_the_end;
  const auto means = static_cast<int64_t>(std::max(0.0, left / copies.on_the_way));
  if (means == 0) return run.updates;
  return run.evaluate_every * ((run.updates - 1) / (run.evaluate_every * (means + 1)) + 1);
}

// Evaluations of the mean before the last one.
int64_t means_on_the_way(const RunOptions& run, int64_t interval) {
  if (run.evaluate_every == 0) return 0;
  return (run.updates - 1) / std::lcm(run.evaluate_every, interval);
}

}  // namespace

AveragingTraffic averaging_traffic(const Recipe& recipe, int64_t vocabulary) {
  AveragingTraffic traffic;
  const auto others = static_cast<double>(recipe.mesh.replicas - 1);
  if (others == 0) return traffic;
  const std::vector<LanePlan> plans = lane_plans(recipe, vocabulary);
  const std::vector<StageOptions> stages = stage_options(recipe, vocabulary, StagesFor::kPlan);
  const RunOptions& run = recipe.run;
  double parameters = 0, run_bytes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageId id = {static_cast<int64_t>(s)};
    parameters += static_cast<double>(stage_parameters(stages[s]));
    for (const LaneOptions& lane : lane_options(recipe, stages[s], id)) {
      const auto plan = std::find_if(plans.begin(), plans.end(),
                                     [&](const LanePlan& p) { return p.lane == lane.lane; });
      // Every value goes to its owner and comes back; the owner sends itself nothing.
      const double bytes = 2 * others * message_round(lane, stages[s]);
      traffic.update_bytes += bytes / static_cast<double>(plan->interval);
      const int64_t rounds = run.updates / plan->interval;
      run_bytes += bytes * static_cast<double>(rounds);
      if (lane.lane != Lane::kMain) continue;
      traffic.stages.push_back(
          {.numbers = round_numbers(lane), .round_bytes = bytes / (others + 1)});
    }
  }
  const auto width = static_cast<double>(c10::elementSize(stages.front().master));
  const double rounded = stages.front().master == at::kFloat ? width / 2 : width;
  const CopyBytes copies = {.on_the_way = others * parameters * rounded,
                            .at_the_end = others * parameters * width};
  traffic.allreduce_bytes =
      allreduce_bytes(static_cast<int64_t>(parameters), recipe.mesh.replicas, 1);
  // Every replica has the common model: nothing is sent to evaluate it.
  if (recipe.averaging.method == AveragingMethod::kLowbit) return traffic;
  traffic.evaluate_mean_every = mean_interval(run, run_bytes, copies);
  const auto earlier = static_cast<double>(means_on_the_way(run, traffic.evaluate_mean_every));
  traffic.evaluation_bytes =
      (earlier * copies.on_the_way + copies.at_the_end) / static_cast<double>(run.updates);
  return traffic;
}

int64_t rounds_in_flight_max(const Recipe& recipe, int64_t interval) {
  const AveragingOptions& averaging = recipe.averaging;
  if (averaging.merge != MergePolicy::kFixedLag) return kFlightsOnArrival;
  return std::max<int64_t>(1, (whole_lag(recipe) + interval - 1) / interval);
}

AveragingMemory averaging_memory(const Recipe& recipe, const StageOptions& stage, StageId id) {
  AveragingMemory memory;
  const auto width = static_cast<double>(c10::elementSize(stage.master));
  for (const LaneOptions& lane : lane_options(recipe, stage, id)) {
    const auto flights = static_cast<double>(rounds_in_flight_max(recipe, round_interval(recipe)));
    memory.buffers +=
        static_cast<double>(buffer_count(lane)) * static_cast<double>(lane.cut.parameters) * width;
    memory.flights += flights * flight_bytes(lane, stage.master);
    memory.answers += answer_bytes(recipe, lane, stage);
    memory.messages += message_bytes(lane, stage.master);
    memory.working =
        std::max(memory.working, working_bytes(lane, recipe.mesh.replicas, stage.master));
  }
  return memory;
}

}  // namespace leeway
