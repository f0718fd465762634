// The arguments of --set, one by one: for commands whose files are more than a recipe.
#pragma once

#include <string>

#include "base/result.h"
#include "config/toml_reader.h"

namespace leeway {

// "table.name=value" as an entry of a recipe, line 0. Errors begin with "--set ...:".
Result<TomlEntry> read_set(const std::string& set);

}  // namespace leeway
