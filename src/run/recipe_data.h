// The data that a recipe names: what to open, where text is prepared, whether it is enough.
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"

namespace leeway {

DataSpec data_spec(const Recipe& recipe);

// Whether there are enough windows for the recipe. Null: not known yet, or none.
Status check_enough(const TokenFile* train, const TokenFile* valid, const Recipe& recipe);
Status check_enough(const Dataset& data, const Recipe& recipe);

// Where a recipe's text is prepared: next to the runs, so that runs on the same text share it, or
// `otherwise` if nothing can be written there. It is safe to remove; the text is then prepared
// again.
Path text_cache(const Path& run_folder, const Path& otherwise);

}  // namespace leeway
