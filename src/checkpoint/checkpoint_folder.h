// A checkpoint is a folder that appears whole or not at all: checkpoints/update-00000050/ with a
// few files and, written last, checkpoint.json with their names, sizes and hashes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace leeway {

struct CheckpointFile {
  // Makes the file under this path, and syncs it.
  using Maker = std::function<Status(const Path&)>;
  std::string name;                                      // a plain name, not checkpoint.json
  std::variant<std::string, TensorFile, Maker> content;  // text, or a safetensors file
  std::optional<uint64_t> hash = {};  // of a file that was written before: another one is damage
};

// Writes next to the target, syncs, renames; returns the new folder. On failure nothing of it is
// left and older checkpoints are untouched. Afterwards only the newest `keep` (at least 1) remain.
// Checkpoints of later updates belong to a history that this one supersedes (the run was resumed
// from an earlier checkpoint), so they are removed too: the latest is always the one written last.
// Only one process may write to `checkpoints` at a time; leftovers of a dead one are removed.
// `mesh`: whose shards are among the files; none: format 1.
Result<Path> write_checkpoint(const Path& checkpoints, int64_t update,
                              const std::vector<CheckpointFile>& files, int64_t keep,
                              const ManifestMesh& mesh = {});

// Complete checkpoints (checkpoint.json is there and every file has its size), newest last. A
// folder that is missing or unreadable has none.
std::vector<Path> list_checkpoints(const Path& checkpoints);

// All folders named like a checkpoint, intact or not, newest last.
std::vector<Path> named_checkpoints(const Path& checkpoints);

Result<Path> latest_checkpoint(const Path& checkpoints);

// Reads every byte and compares with checkpoint.json. The error names an earlier checkpoint that
// is complete, if there is one.
Status verify_checkpoint(const Path& checkpoint);

// The n of update-n; nullopt: not the name of a checkpoint.
std::optional<int64_t> checkpoint_update(const Path& checkpoint);

}  // namespace leeway
