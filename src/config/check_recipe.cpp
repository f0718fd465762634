#include "config/keys.h"
#include "config/load.h"

namespace leeway {

Result<LoadedRecipe> check_recipe(const Recipe& recipe) {
  const Recipe untouched;
  RecipeLayer layer = {.source_name = "the recipe", .entries = {}};
  for (const Key& key : keys()) {
    // `tokens` decides `updates`, which may be left over from an earlier completion.
    if (key.path == "run.updates" && recipe.run.tokens > 0) continue;
    Value value = value_of(key, recipe);
    if (value == value_of(key, untouched)) continue;
    layer.entries.push_back({.path = std::string(key.path), .value = std::move(value)});
  }
  return join_recipe({std::move(layer)}, {}, IdleKeys::kDropped);
}

}  // namespace leeway
