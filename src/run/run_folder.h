// Which folder a run writes to, and what happens to a run that is there already. Nothing is ever
// written over.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace leeway {

enum class ExistingRun { kAsk, kResume, kFresh };

// kAsk: a finished run may be moved aside, an unfinished one is an error that names the two ways
// on. kFresh: either may be moved. kResume: there must be one. Returns whether there is a run to
// move; nothing is touched yet.
Result<bool> check_run_folder(const Path& folder, ExistingRun existing);

// out/r1 -> out/r1.1, or the next number that is free; returns the new name.
Result<Path> move_run_aside(const Path& folder);

// Where text that a recipe names is prepared: beside the runs, so that runs on the same text share
// it. Removing it costs nothing but the time to prepare it again.
Path text_cache(const Path& run_folder);

}  // namespace leeway
