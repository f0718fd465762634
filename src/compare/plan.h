// Which runs a comparison is made of, and whether they may be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare/comparison.h"

namespace leeway {

struct PlannedRun {
  size_t variant = 0;  // index
  double rate = 1;     // factor
  int64_t seed = 0;
  std::string name;  // of its folder: for people, and a hash of the whole recipe
  LoadedRecipe recipe;
  std::string refused;  // not empty: why its values do not go together; it is not run
};

struct ComparisonPlan {
  Comparison comparison;
  std::string source_name;
  std::vector<int64_t> seeds;
  std::vector<PlannedRun> runs;     // seed by seed, rate by rate, variant by variant
  std::vector<std::string> unfair;  // what is unequal, one sentence each
};

// Refuses unfair sets unless the file says `fair = false`, and sets in which nothing can run.
Result<ComparisonPlan> plan_comparison(const ComparisonText& text);

// Changes with every value of a recipe, and with nothing else.
uint64_t recipe_hash(const Recipe& recipe);

// Tokens that all replicas of a run read together.
int64_t run_tokens(const Recipe& recipe);

// What makes losses of these two no comparison, in words; the names are the variants'.
std::vector<std::string> unfair_between(const std::string& first_name, const Recipe& first,
                                        const std::string& second_name, const Recipe& second);

}  // namespace leeway
