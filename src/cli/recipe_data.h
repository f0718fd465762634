// The data that a recipe names, with a progress bar while text is prepared.
#pragma once

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "config/recipe.h"
#include "data/dataset.h"

namespace leeway::cli {

// `folder`: the run folder, beside which prepared text is cached.
Result<Dataset> read_data(const Recipe& recipe, const Path& folder, const Clock& clock);

// read_data(), then checks that there is enough data for the recipe. Prints what the user should
// know about it on standard error.
Result<Dataset> open_data(const Recipe& recipe, const Path& folder, const Clock& clock);

// Where a recipe's text is prepared: next to the runs, or in the user's cache if nothing can be
// written there.
Path text_cache(const Path& run_folder);
Path user_text_cache();

// What `config check` can tell of the data.
struct DataLook {
  int64_t vocabulary = 0;
  bool thorough = false;  // read through, as open_data() does
};
// Checks what open_data() would, and writes nothing that stays. Data of more than a few megabytes
// is not read through: only whether its files open, and what their headers say.
Result<DataLook> look_at_data(const Recipe& recipe, const Clock& clock);

}  // namespace leeway::cli
