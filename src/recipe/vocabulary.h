// The vocabulary size of a recipe's data, usually found without reading the data.
#pragma once

#include "base/result.h"
#include "config/recipe.h"

namespace leeway {

// Prepared data states it; for text it is the tokenizer's. For a foreign token file that does not
// state it and has no tokenizer, it is one more than the largest id, as in training.
Result<int64_t> recipe_vocabulary(const DataOptions& data);

}  // namespace leeway
