// Which folder a run writes to, and what happens to a run already there. Nothing is ever
// overwritten.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace leeway {

enum class ExistingRun { kAsk, kResume, kFresh };

// kAsk: a finished run may be moved aside; an unfinished one is an error that names both options.
// kFresh: either may be moved. kResume: there must be a run. Returns whether there is a run to
// move; nothing is touched yet.
Result<bool> check_run_folder(const Path& folder, ExistingRun existing);

// out/r1 -> out/r1.1, or the next free number; returns the new name.
Result<Path> move_run_aside(const Path& folder);

// Where a recipe's text is prepared: next to the runs, so that runs on the same text share it. It
// is safe to remove; the text is then prepared again.
Path text_cache(const Path& run_folder);

}  // namespace leeway
