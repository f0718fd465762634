// The file of `leeway compare`: a recipe, what is set over it for all, and named variants.
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
  std::string recipe;         // of the file, beside which it is looked for; empty: base is all
  std::vector<double> seeds;  // whole numbers; empty: the recipe's own
  std::vector<double> rates = {1};  // factors of the learning rates
  int64_t seeds_line = 0;
  int64_t rates_line = 0;
  bool fair = true;        // sets of unequal length or data are refused
  std::string baseline;    // a variant's name
  double target_loss = 0;  // the time to it is told; 0: none
  RecipeLayer base;
  RecipeLayer sets = {"--set", {}};  // over base
  std::vector<Variant> variants;     // in the order of the file, at least one
};

// All errors are the user's. Keys of recipes are not looked at yet, but for those that are the
// comparison's own business.
Result<Comparison> parse_comparison(std::string_view toml, std::string_view source_name);

// One run of a variant; `seed` is not looked at where the comparison has none of its own.
struct RunChoice {
  double rate = 1;
  double seed = 0;
};

// What a comparison's recipes are made of: the text of its file, and of the recipe that it names.
struct ComparisonText {
  Comparison comparison;
  std::string source_name;
  std::vector<RecipeLayer> recipe;  // none or one
};
// `sets`: the arguments of --set, of seeds and the like, or of keys of recipes for all variants.
Result<ComparisonText> load_comparison(const Path& file, const std::vector<std::string>& sets);

// The recipe of a run before its values are held against each other. Errors here are mistakes in
// the file, whatever the variant: unknown keys, values that are out of range.
Result<LoadedRecipe> stack_variant(const ComparisonText& text, const Variant& variant,
                                   const RunChoice& choice);

}  // namespace leeway
