#include "run/reshaped_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "averaging/merge.h"
#include "averaging/newcomer.h"
#include "averaging/subset.h"
#include "base/human.h"
#include "recipe/lane_options.h"
#include "recipe/stage_options.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

using RoundNumbers = std::vector<std::vector<int64_t>>;  // by stage, then by lane

std::string leave_text(int64_t first, int64_t end) {
  if (end - first == 1)
    return fmt::format("replica {} leaves: its weights and moments are dropped", first);
  return fmt::format("replicas {} to {} leave: their weights and moments are dropped", first,
                     end - 1);
}

int64_t largest_round(const std::vector<ReplicaState>& replicas, size_t lane) {
  int64_t largest = 0;
  for (const ReplicaState& replica : replicas) {
    for (const auto& lanes : replica.rounds) {
      if (lane < lanes.size()) largest = std::max(largest, lanes[lane]);
    }
  }
  return largest;
}

// The numbers of each replica's next rounds. A kind of round that the run did not have begins where
// it would be by now: the running mean's constant depends on it.
std::vector<RoundNumbers> rounds_on(const Mesh& mesh, const std::vector<LanePlan>& lanes,
                                    const SavedRun& saved) {
  const auto& replicas = saved.state.replicas;
  const auto before = cut_into_stages(saved.shape, std::ssize(replicas.front().rounds));
  const auto after = cut_into_stages(saved.shape, mesh.stages);
  const auto stays = [&](size_t s) {
    return s < before.size() && before[s].first_layer == after[s].first_layer &&
           before[s].layers == after[s].layers;
  };
  std::vector<RoundNumbers> all;
  for (const ReplicaState& replica : replicas) {
    RoundNumbers& rounds = all.emplace_back(after.size());
    for (size_t s = 0; s < after.size(); ++s) {
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        if (lane >= replica.rounds.front().size()) {
          rounds[s].push_back(replica.optimizer.updates / lanes[lane].interval);
        } else {
          rounds[s].push_back(stays(s) ? replica.rounds[s][lane] : largest_round(replicas, lane));
        }
      }
    }
  }
  return all;
}

// A look-ahead's last update: zero where the run has not kept it, which predicts nothing once.
void fit_last_update(const Recipe& recipe, ReplicaState& replica, int64_t vocabulary) {
  auto& buffers = replica.optimizer.buffers;
  const auto stages = stage_options(recipe, vocabulary);
  const bool needed =
      std::ranges::any_of(stages, [](const StageOptions& stage) { return stage.horizon > 0; });
  const auto is_it = [](const auto& named) { return named.first == kLastUpdate; };
  if (!needed) {
    std::erase_if(buffers, is_it);
  } else if (std::ranges::none_of(buffers, is_it)) {
    buffers.emplace_back(kLastUpdate, at::zeros_like(replica.weights));
  }
}

void fit_buffers(const Recipe& recipe, ReplicaState& replica, int64_t vocabulary) {
  const std::vector<std::string> names = averaging_buffer_names(recipe, vocabulary);
  replica.optimizer.buffers =
      with_averaging_buffers({replica.weights, replica.optimizer.buffers}, names).buffers;
  fit_last_update(recipe, replica, vocabulary);
}

at::Tensor* residual_of(ReplicaState& replica) {
  return find_buffer(replica.optimizer.buffers, kResidualBuffer);
}

// `lowbit`: what owners have yet to say goes to the new owners of the same weights.
void deal_residuals(const Recipe& recipe, const at::Tensor& residual, SavedRun& saved) {
  auto& replicas = saved.state.replicas;
  for (ReplicaState& replica : replicas) {
    if (at::Tensor* const own = residual_of(replica)) *own = at::zeros_like(residual);
  }
  int64_t offset = 0;
  const auto stages = stage_options(recipe, saved.shape.vocabulary, StagesFor::kPlan);
  for (size_t s = 0; s < stages.size(); ++s) {
    const int64_t count = stage_parameters(stages[s]);
    const auto lanes = lane_options(recipe, stages[s], {static_cast<int64_t>(s)});
    const LaneOptions& main = lanes.front();
    const Subset whole = Cut(main.cut).subset(0);
    for (int64_t chunk = 0; chunk < main.chunks; ++chunk) {
      // Owners of steps do not rotate: a chunk is that of the replica with its number.
      const Subset part = whole.chunk(chunk, main.chunks);
      at::Tensor& own = *residual_of(replicas[static_cast<size_t>(chunk)]);
      scatter(part, gather(part, residual.narrow(0, offset, count)), own.narrow(0, offset, count));
    }
    offset += count;
  }
}

// Keeps the first replicas, and copies them for places that nobody has. Returns what it did.
std::vector<std::string> fit_replicas(int64_t wanted, std::vector<ReplicaState>& replicas) {
  const int64_t there = std::ssize(replicas);
  std::vector<std::string> said;
  if (wanted < there) {
    said.push_back(leave_text(wanted, there));
    replicas.resize(static_cast<size_t>(wanted));
  }
  for (int64_t r = there; r < wanted; ++r) {
    const int64_t from = r % there;  // evenly, so that the mean of all stays near where it was
    const ReplicaState& donor = replicas[static_cast<size_t>(from)];
    WeightsAndBuffers copied =
        newcomer_from({donor.weights, donor.optimizer.buffers}, NewcomerStarts::kWithDonor);
    ReplicaState newcomer = donor;
    newcomer.weights = std::move(copied.weights);
    newcomer.optimizer.buffers = std::move(copied.buffers);
    replicas.push_back(std::move(newcomer));
    said.push_back(fmt::format("replica {} begins as a copy of replica {}", r, from));
  }
  return said;
}

double usual_bytes_of(const SavedRun& saved) {
  int64_t updates = 0;
  for (const ReplicaState& replica : saved.state.replicas) updates += replica.optimizer.updates;
  const int64_t replicas = std::ssize(saved.state.replicas);
  return allreduce_bytes(saved.state.weights.numel(), replicas, updates) /
         static_cast<double>(replicas);
}

// Updates that replicas have made beyond the slowest of them.
int64_t updates_ahead(const std::vector<ReplicaState>& replicas) {
  int64_t sum = 0;
  int64_t least = INT64_MAX;
  for (const ReplicaState& replica : replicas) {
    sum += replica.optimizer.updates;
    least = std::min(least, replica.optimizer.updates);
  }
  return sum - least * std::ssize(replicas);
}

// The fleet's position in the data is that of its slowest replica: text that others have read
// beyond it belongs to other replicas now. Says where it goes on.
std::string move_data(const Recipe& recipe, const std::vector<ReplicaState>& before,
                      SavedRun& saved) {
  const auto& after = saved.state.replicas;
  RunCounters& counters = saved.counters;
  const int64_t batch = recipe.data.batch;
  const int64_t position =
      counters.update * batch * std::ssize(before) + counters.shifted_sequences;
  const auto slowest = std::ranges::min_element(
      after, {}, [](const ReplicaState& replica) { return replica.optimizer.updates; });
  counters.update = slowest->optimizer.updates;
  counters.shifted_sequences = position - counters.update * batch * std::ssize(after);
  if (recipe.data.own_parts) {
    return "data.own_parts: each replica has another part of the text from here on, and may read "
           "what another one has read";
  }
  const int64_t tokens = batch * recipe.model.context;
  std::string said = fmt::format("the data goes on at token {}", position * recipe.model.context);
  if (updates_ahead(before) == 0) return said + ": none is skipped, none is read twice";
  return said + fmt::format(
                    "; up to {} tokens that faster replicas have read are read again, {} "
                    "are skipped",
                    updates_ahead(before) * tokens, updates_ahead(after) * tokens);
}

}  // namespace

Result<Mesh> mesh_of(const SavedRun& saved) {
  const auto& replicas = saved.state.replicas;
  const auto& rounds = replicas.front().rounds;
  const bool agree = std::ranges::all_of(replicas, [&](const ReplicaState& replica) {
    return replica.rounds.size() == rounds.size() &&
           std::ranges::all_of(replica.rounds, [&](const auto& lanes) {
             return lanes.size() == rounds.front().size();
           });
  });
  const bool cuts = !rounds.empty() && std::ssize(rounds) <= saved.shape.layers;
  if (!agree || !cuts) return Error{"the replicas of the checkpoint do not have the same rounds"};
  return Mesh{.stages = std::ssize(rounds), .replicas = std::ssize(replicas)};
}

Result<std::vector<std::string>> reshape(SavedRun& saved, const Recipe& recipe) {
  LEEWAY_ASSIGN(const Mesh before, mesh_of(saved));
  const Mesh after = {.stages = recipe.mesh.stages, .replicas = recipe.mesh.replicas};
  if (before.stages == after.stages && before.replicas == after.replicas) {
    return std::vector<std::string>();
  }
  auto& replicas = saved.state.replicas;
  const std::vector<ReplicaState> replicas_before = replicas;
  const int64_t vocabulary = saved.shape.vocabulary;
  at::Tensor residual;
  const double usual_before = usual_bytes_of(saved);
  const std::vector<RoundNumbers> rounds = rounds_on(after, lane_plans(recipe, vocabulary), saved);
  for (size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].rounds = rounds[r];
    replicas[r].chunks.clear();  // another mesh cuts the model into other chunks
    replicas[r].sent.clear();
    fit_buffers(recipe, replicas[r], vocabulary);
    if (const at::Tensor* const own = residual_of(replicas[r])) {
      residual = residual.defined() ? residual + *own : own->clone();
    }
  }
  std::vector<std::string> said;
  if (before.stages != after.stages && after.replicas > 1) {
    said.push_back(
        fmt::format("the model is cut into {} in place of {}; averaging goes on with "
                    "the largest number of a round",
                    counted(after.stages, "stage"), before.stages));
  }
  for (std::string& line : fit_replicas(after.replicas, replicas)) said.push_back(std::move(line));
  if (residual.defined() && after.replicas > 1) deal_residuals(recipe, residual, saved);
  if (before.replicas == after.replicas) return said;
  std::vector<at::Tensor> weights;
  for (const ReplicaState& replica : replicas) weights.push_back(replica.weights);
  const at::Tensor* const common = find_buffer(replicas.front().optimizer.buffers, kCommonBuffer);
  saved.state.weights = common != nullptr     ? *common
                        : weights.size() == 1 ? weights.front()
                                              : mean_of(weights);
  saved.counters.shifted_allreduce_bytes +=
      static_cast<int64_t>(usual_before - usual_bytes_of(saved));
  said.push_back(move_data(recipe, replicas_before, saved));
  return said;
}

}  // namespace leeway
