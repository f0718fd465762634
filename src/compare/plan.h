// The runs of a comparison, and whether comparing them is fair.
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
  std::string name;  // its folder's: readable, plus a hash of the whole recipe
  LoadedRecipe recipe;
  std::string refused;  // not empty: why the recipe is invalid; the run is skipped
};

struct ComparisonPlan {
  Comparison comparison;
  std::string source_name;
  std::vector<int64_t> seeds;
  std::vector<PlannedRun> runs;     // seed by seed, rate by rate, variant by variant
  std::vector<std::string> unfair;  // differences, one sentence each
};

// Refuses unfair comparisons unless the file says `fair = false`, and those with nothing to run.
Result<ComparisonPlan> plan_comparison(const ComparisonText& text);

// Changes with every value of a recipe, and with nothing else.
uint64_t recipe_hash(const Recipe& recipe);

// Tokens read by all replicas of a run together.
int64_t run_tokens(const Recipe& recipe);

// Why the losses of two variants cannot be compared, in words.
std::vector<std::string> unfair_between(const std::string& first_name, const Recipe& first,
                                        const std::string& second_name, const Recipe& second);

}  // namespace leeway
