// One mesh that a cluster could run: its recipe, its estimated speed without simulation, and what
// limits it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "simulate/cluster.h"
#include "simulate/scenario.h"

namespace leeway {

// The search space; the rest follows from it.
struct MeshChoice {
  int64_t stages = 1;
  int64_t replicas = 1;
  int64_t microbatch = 1;  // sequences
};

struct Candidate {
  MeshChoice choice;
  LoadedRecipe recipe;  // with everything that the plan chooses
  Placement placement;
  std::string_view limit = {};  // what limits it, in a word or two
  double predicted = 0;         // tokens per second
  double simulated = 0;         // tokens per second; 0: not simulated
};

// Why a choice is not possible.
struct Refusal {
  enum class Kind { kMemory, kTokens, kRecipe };
  Kind kind = Kind::kRecipe;
  std::string sentence = {};
  double lacking = 0;  // for kMemory: bytes missing on the machine that lacks the most
};

struct PlanInputs {
  const Scenario& scenario;
  const Cluster& cluster;
  std::vector<size_t> order;  // machines, with those that belong together adjacent
  int64_t vocabulary = 0;
};

// Chooses depth for the links, recomputation if memory needs it, and rounds that the links can
// carry and that are stable at the lag they will have.
std::variant<Candidate, Refusal> make_candidate(const PlanInputs& inputs, const MeshChoice& choice);

}  // namespace leeway
