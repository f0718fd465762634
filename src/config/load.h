// Loads a recipe from a TOML file and --set: checked, complete, and with the origin of every value.
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
  std::map<std::string, Origin, std::less<>> origins;  // by "table.name"; missing: default
  std::vector<std::string> notes = {};  // about keys of the file that --set has left without effect

  Origin origin_of(std::string_view path) const;
  bool is_given(std::string_view path) const {
    return origin_of(path).kind != Origin::Kind::kDefault;
  }
};

// "default", "recipes/quickstart.toml:12" or "--set".
std::string origin_text(const Origin& origin);

// `sets` are the arguments of --set, "table.name=value". A later one overrides an earlier one, and
// all of them override the file. The returned recipe has its defaults filled in and has passed
// every check. All errors are usage errors (exit status 2), even an unreadable file. A key of the
// file that --set leaves without effect (averaging.lag, with --set averaging.method=allreduce) is
// dropped, with a note; one that has no effect in the file itself is an error.
Result<LoadedRecipe> load_recipe(const Path& path, const std::vector<std::string>& sets);
Result<LoadedRecipe> parse_recipe(std::string_view toml, std::string_view source_name,
                                  const std::vector<std::string>& sets);

// The keys that one file sets.
struct RecipeLayer {
  std::string source_name;
  std::vector<TomlEntry> entries;  // path: "table.name"
};

// The same in two steps, for recipes made of several files. The first step finds mistakes in single
// keys (unknown names, values out of range); later layers override earlier ones.
Result<LoadedRecipe> stack_layers(const std::vector<RecipeLayer>& layers);
// The second step fills in defaults and finds values that do not go together.
Status complete_recipe(LoadedRecipe& loaded, std::string_view source_name);

// What to do with keys from files that have no effect in the files as a whole.
enum class IdleKeys { kRefused, kDropped };
// Both steps. kDropped is for trying one recipe with several methods.
Result<LoadedRecipe> join_recipe(const std::vector<RecipeLayer>& layers,
                                 const std::vector<std::string>& sets, IdleKeys idle);

// A recipe made in code, completed and checked like one from a file: fields that still have the
// value that recipe.h gives them count as not given.
Result<LoadedRecipe> check_recipe(const Recipe& recipe);

}  // namespace leeway
