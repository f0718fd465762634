// How many different tokens a recipe's data has, found without reading the data.
#pragma once

#include "base/result.h"
#include "config/recipe.h"

namespace leeway {

// Prepared data says so itself; for text it is the tokenizer's. A foreign token file that does not
// say, and comes without a tokenizer, has one more than its largest id, as in training.
Result<int64_t> recipe_vocabulary(const DataOptions& data);

}  // namespace leeway
