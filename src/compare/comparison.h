// The file of `leeway compare`: a recipe, overrides for all variants, and named variants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/load.h"

namespace leeway {

struct Variant {
  std::string name;
  RecipeLayer layer;
};

struct Comparison {
  std::string recipe;               // file name, relative to this file; empty: only base
  std::vector<double> seeds;        // whole numbers; empty: the recipe's own
  std::vector<double> rates = {1};  // learning-rate factors
  int64_t seeds_line = 0;
  int64_t rates_line = 0;
  bool fair = true;        // refuse runs of unequal length or data
  std::string baseline;    // a variant's name
  double target_loss = 0;  // report the time to reach it; 0: none
  RecipeLayer base;
  RecipeLayer sets = {"--set", {}};  // over base
  std::vector<Variant> variants;     // in the order of the file, at least one
};

// All errors are usage errors. Recipe keys are not checked yet, except those that the comparison
// itself sets.
Result<Comparison> parse_comparison(std::string_view toml, std::string_view source_name);

// One run of a variant; `seed` is ignored if the comparison has no seeds of its own.
struct RunChoice {
  double rate = 1;
  double seed = 0;
};

// The sources of a comparison's recipes: its own file and the recipe it names.
struct ComparisonText {
  Comparison comparison;
  std::string source_name;
  std::vector<RecipeLayer> recipe;  // none or one
};
// `sets`: the --set arguments, for top-level keys such as seeds or for recipe keys of all variants.
Result<ComparisonText> load_comparison(const Path& file, const std::vector<std::string>& sets);

// The recipe of a run, before checking that its values go together. Errors here are mistakes in the
// file, whatever the variant: unknown keys, values out of range.
Result<LoadedRecipe> stack_variant(const ComparisonText& text, const Variant& variant,
                                   const RunChoice& choice);

}  // namespace leeway
