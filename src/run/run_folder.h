// Which folder a run writes to, who may write there, and what happens to a run already there.
// Nothing is ever overwritten.
#pragma once

#include <optional>
#include <string>

#include "base/files.h"
#include "base/held_folder.h"
#include "base/result.h"
#include "config/recipe.h"

namespace leeway {

// Whether `folder` has a run, and whether that run is finished.
enum class RunFolderState { kNone, kUnfinished, kFinished };
Result<RunFolderState> run_folder_state(const Path& folder);

enum class ExistingRun { kAsk, kResume, kFresh };

// The run in `folder`, held for this process; none if there is no run yet. kAsk: an unfinished run
// is an error that names both options. kResume: there must be a run. Nothing in the folder changes.
Result<std::optional<HeldFolder>> hold_existing_run(const Path& folder, ExistingRun existing);

// An empty folder for a new run, held for this process. The earlier run in it, if any, is moved
// aside first: out/r1 -> out/r1.1, or the next free number.
struct NewRun {
  HeldFolder folder;
  std::optional<Path> aside = {};
};
Result<NewRun> begin_run(const Path& folder, std::optional<HeldFolder> earlier);

// Copies a small file of a run to another folder, if it is there, and a run's tokenizer.
Status copy_if_there(const Path& from, const Path& to);
Status copy_tokenizer(const Path& from, const Path& to);

// The way from a run folder to the current one, for its `started` event.
std::string way_to_start(const Path& run_folder);

// The recipe of a run that goes on, perhaps from another folder: relative paths to data lead from
// the folder where the run was started, if there is something there.
Recipe with_data_found(Recipe recipe, const Path& run_folder);

}  // namespace leeway
