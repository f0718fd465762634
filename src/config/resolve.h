// Fills in the defaults that follow from other keys, so that the program sees final numbers only.
#pragma once

#include "config/load.h"

namespace leeway {

// Rules as in the "automatic" column of keys.cpp; values that were given stay as they are.
void resolve(LoadedRecipe& loaded);

}  // namespace leeway
