// The data that a recipe names, with a progress bar where text has to be prepared first.
#pragma once

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"

namespace leeway::cli {

// `folder`: of the run, beside which prepared text is kept.
Result<Dataset> read_data(const Recipe& recipe, const Path& folder, const Clock& clock);

// And there is enough of it for the recipe.
Result<Dataset> open_data(const Recipe& recipe, const Path& folder, const Clock& clock);

}  // namespace leeway::cli
