#include "config/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/keys.h"

namespace leeway {
namespace {

// Comments start in this column, unless a value is longer.
constexpr int kCommentColumn = 28;

constexpr std::string_view kIntroduction =
    "# Every value of the run, with where it came from. This is a recipe itself.\n";

// Of the two keys for the run's length a recipe holds one; the other is printed as a comment.
bool is_idle(const Key& key, const Recipe& recipe) {
  return key.path == (recipe.run.tokens > 0 ? "run.updates" : "run.tokens");
}

std::string line_of(const Key& key, const LoadedRecipe& loaded) {
  const bool idle = is_idle(key, loaded.recipe);
  const std::string left = fmt::format("{}{} = {}", idle ? "# " : "", key.name(),
                                       toml_text(value_of(key, loaded.recipe)));
  const std::string_view counts = loaded.recipe.run.tokens > 0 ? "run.tokens" : "run.updates";
  const std::string right =
      idle ? fmt::format("{} counts", counts) : origin_text(loaded.origin_of(key.path));
  return fmt::format("{:<{}} # {}\n", left, kCommentColumn, right);
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
