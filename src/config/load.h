// A recipe from a TOML file and --set: checked, complete, and every value knows where it came from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "config/toml_reader.h"

namespace leeway {

struct Origin {
  enum class Kind { kDefault, kFile, kSet };
  Kind kind = Kind::kDefault;
  std::string file = {};  // kFile only
  int64_t line = 0;       // kFile only, from 1
  bool operator==(const Origin&) const = default;
};

struct LoadedRecipe {
  Recipe recipe;
  std::map<std::string, Origin, std::less<>> origins;  // by "table.name"; a missing one: default

  Origin origin_of(std::string_view path) const;
  bool is_given(std::string_view path) const {
    return origin_of(path).kind != Origin::Kind::kDefault;
  }
};

// "default", "recipes/quickstart.toml:12" or "--set".
std::string origin_text(const Origin& origin);

// `sets` are the arguments of --set, "table.name=value". A later one wins over an earlier one, and
// any of them over the file. The recipe that comes back has no "auto" left in it and has passed
// every check. All errors are the user's (exit status 2), an unreadable file included.
Result<LoadedRecipe> load_recipe(const Path& path, const std::vector<std::string>& sets);
Result<LoadedRecipe> parse_recipe(std::string_view toml, std::string_view source_name,
                                  const std::vector<std::string>& sets);

// Keys of recipes as they stand in some file, that one or another.
struct RecipeLayer {
  std::string source_name;
  std::vector<TomlEntry> entries;  // path: "table.name"
};

// The same in two steps, for recipes that are put together of several files. The first finds what
// is wrong whatever the rest says (unknown keys, values out of range); later layers win.
Result<LoadedRecipe> stack_layers(const std::vector<RecipeLayer>& layers);
// The second fills in what was left out and finds values that do not go together.
Status complete_recipe(LoadedRecipe& loaded, std::string_view source_name);

// What files may say that the recipe as a whole has no use for.
enum class IdleKeys { kRefused, kDropped };
// All of it. With kDropped, keys of [averaging] and of the look-ahead that came from a file and
// have no say are as if they had not been given: for a recipe that is tried with several methods.
Result<LoadedRecipe> join_recipe(const std::vector<RecipeLayer>& layers,
                                 const std::vector<std::string>& sets, IdleKeys idle);

}  // namespace leeway
