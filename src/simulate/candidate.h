// One mesh that a cluster could run: what it would be called in a recipe, and by arithmetic alone
// how fast it could be and what would hold it back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "simulate/cluster.h"
#include "simulate/scenario.h"

namespace leeway {

// What is searched over; the rest follows.
struct MeshChoice {
  int64_t stages = 1;
  int64_t replicas = 1;
  int64_t microbatch = 1;  // sequences
};

struct Candidate {
  MeshChoice choice;
  LoadedRecipe recipe;  // with everything that the plan decides
  Placement placement;
  std::string_view limit = {};  // what holds it back, in a word or two
  double predicted = 0;         // tokens per second
  double simulated = 0;         // likewise; 0: it was not tried
};

// Why a choice is none.
struct Refusal {
  enum class Kind { kMemory, kTokens, kRecipe };
  Kind kind = Kind::kRecipe;
  std::string sentence = {};
  double lacking = 0;  // of kMemory: bytes that the machine which lacks most would need more
};

struct PlanInputs {
  const Scenario& scenario;
  const Cluster& cluster;
  std::vector<size_t> order;  // machines, those that belong together beside each other
  int64_t vocabulary = 0;
};

// Depth for the links, recomputation where memory asks for it, rounds that the links can carry and
// that are stable at the lag they will have.
std::variant<Candidate, Refusal> make_candidate(const PlanInputs& inputs, const MeshChoice& choice);

}  // namespace leeway
