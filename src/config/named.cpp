#include "config/named.h"

#include <fmt/format.h>

#include "config/keys.h"

namespace leeway {

std::string named(const LoadedRecipe& loaded, std::string_view path) {
  const Key* key = find_key(path);
  LEEWAY_CHECK(key != nullptr, "unknown key");
  return fmt::format("{} = {} ({})", path,
                     shown(toml_text(value_of(*key, loaded.recipe)), kShortBytes),
                     origin_text(loaded.origin_of(path)));
}

std::string named_length(const LoadedRecipe& loaded) {
  if (loaded.recipe.run.tokens == 0) return named(loaded, "run.updates");
  return fmt::format("the {} updates of {}", loaded.recipe.run.updates,
                     named(loaded, "run.tokens"));
}

}  // namespace leeway
