// A new run folder that goes on from a checkpoint of another run, on another mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

struct ReshapeRequest {
  Path from;  // a checkpoint, or a run: its newest intact one
  int64_t stages = 1;
  int64_t replicas = 1;
  std::vector<std::string> sets = {};  // further keys, as --set
  Path out;                            // must not exist
};

struct ReshapedRun {
  Path checkpoint;  // the one it was made of
  int64_t update = 0;
  std::vector<std::string> changes = {};  // to the recipe, the replicas and the data
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};  // about keys that the new mesh leaves without effect
};

// `out` appears complete or not at all: the recipe with its new mesh, one checkpoint, the
// tokenizer, and a log that says where the run comes from. The source stays as it is.
Result<ReshapedRun> reshape_run(const ReshapeRequest& request);

}  // namespace leeway
