// A checkpoint is a folder that appears whole or not at all: checkpoints/update-00000050/ with a
// few files and, written last, checkpoint.json with their names, sizes and hashes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace leeway {

struct CheckpointFile {
  std::string name;                               // a plain name, not checkpoint.json
  std::variant<std::string, TensorFile> content;  // text, or a safetensors file
};

// Writes beside the target, syncs, renames; returns the new folder. On failure nothing of it is
// left and the older checkpoints stand. Afterwards only the newest `keep` (at least 1) remain.
// Checkpoints of later updates are of a history that this one supersedes (the run went on from an
// earlier one), so they go as well: the latest is always the one written last.
// One process writes to `checkpoints` at a time; what a dead one left unfinished is removed.
Result<Path> write_checkpoint(const Path& checkpoints, int64_t update,
                              const std::vector<CheckpointFile>& files, int64_t keep);

// Complete ones (checkpoint.json is there and every file has its size), newest last. A folder
// that is missing or unreadable has none.
std::vector<Path> list_checkpoints(const Path& checkpoints);

// All that have the name of one, sound or not, newest last.
std::vector<Path> named_checkpoints(const Path& checkpoints);

Result<Path> latest_checkpoint(const Path& checkpoints);

// Reads every byte and compares with checkpoint.json. The error names an earlier checkpoint that
// is complete, if there is one.
Status verify_checkpoint(const Path& checkpoint);

// The n of update-n; nullopt: not the name of a checkpoint.
std::optional<int64_t> checkpoint_update(const Path& checkpoint);

}  // namespace leeway
