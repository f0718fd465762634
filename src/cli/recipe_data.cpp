#include "cli/recipe_data.h"

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/run_folder.h"

namespace leeway::cli {

Result<Dataset> open_data(const Recipe& recipe, const Path& folder, const Clock& clock) {
  Progress progress(clock, "reading text", 0);
  LEEWAY_ASSIGN(Dataset data, open_dataset({.train = recipe.data.train,
                                            .valid = recipe.data.valid,
                                            .tokenizer = recipe.data.tokenizer,
                                            .valid_share = recipe.data.valid_share},
                                           text_cache(folder), [&](uint64_t done, uint64_t) {
                                             progress.show(done, human_bytes(done));
                                             return !interrupted();
                                           }));
  LEEWAY_TRY(check_windows(data.train, recipe.model.context));
  if (data.valid) LEEWAY_TRY(check_windows(*data.valid, recipe.model.context));
  return data;
}

}  // namespace leeway::cli
