// Fills in the defaults that depend on other keys, so that the program only sees final values.
#pragma once

#include "config/load.h"

namespace leeway {

// Follows the rules in the "automatic" column of keys.cpp; given values stay as they are.
void resolve(LoadedRecipe& loaded);

}  // namespace leeway
