#include "config/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/averaging_rules.h"
#include "config/keys.h"

namespace leeway {
namespace {

// Comments start in this column, unless a value is longer.
constexpr int kCommentColumn = 28;

constexpr std::string_view kIntroduction =
    "# Every value of the run and where it came from. This file is itself a recipe.\n";

// Why a key is printed as a comment; empty if it is not. A recipe may have only one of the two keys
// for the run's length, and keys that the averaging method ignores would be rejected.
std::string why_idle(const Key& key, const Recipe& recipe) {
  const bool by_tokens = recipe.run.tokens > 0;
  if (key.path == (by_tokens ? "run.updates" : "run.tokens"))
    return fmt::format("{} is used", by_tokens ? "run.tokens" : "run.updates");
  const auto idle = idle_averaging(key.path, recipe.averaging);
  if (!idle) return "";
  return fmt::format("idle: {} = {}", idle->decided_by,
                     toml_text(value_of(*find_key(idle->decided_by), recipe)));
}

std::string line_of(const Key& key, const LoadedRecipe& loaded) {
  const std::string idle = why_idle(key, loaded.recipe);
  const std::string left = fmt::format("{}{} = {}", idle.empty() ? "" : "# ", key.name(),
                                       toml_text(value_of(key, loaded.recipe)));
  return fmt::format("{:<{}} # {}\n", left, kCommentColumn,
                     idle.empty() ? origin_text(loaded.origin_of(key.path)) : idle);
}

}  // namespace

std::string print_recipe(const LoadedRecipe& loaded) {
  std::string text(kIntroduction);
  for (const Table& table : tables()) {
    text += fmt::format("\n[{}]\n", table.name);
    for (const Key& key : keys()) {
      if (key.table() == table.name) text += line_of(key, loaded);
    }
  }
  return text;
}

}  // namespace leeway
