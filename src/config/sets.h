// Reads single arguments of --set, for commands whose files are more than a recipe.
#pragma once

#include <string>

#include "base/result.h"
#include "config/toml_reader.h"

namespace leeway {

// "table.name=value" as an entry of a recipe, with line 0. Errors start with "--set ...:".
Result<TomlEntry> read_set(const std::string& set);

}  // namespace leeway
