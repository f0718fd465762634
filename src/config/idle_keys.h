// Keys of a file that have no effect in the recipe as a whole, for example averaging.lag with
// averaging.method = "allreduce".
#pragma once

#include <string_view>

#include "config/load.h"

namespace leeway {

// Puts the key back to its default, as if no file had named it.
void forget(std::string_view path, LoadedRecipe& loaded);

// Leaves such keys out, with a note each. A key that has no effect in the files alone is a mistake
// in them and stays, for the checks to find: `files` is the recipe without --set. Null: all go.
void drop_idle(const Recipe* files, LoadedRecipe& loaded);

}  // namespace leeway
