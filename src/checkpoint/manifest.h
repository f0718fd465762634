// checkpoint.json: what a checkpoint's folder contains. It is written last, so its presence means
// that the rest was written, and its hashes show whether the rest is still unchanged.
//
// Format 2 has a shard for each worker and says which; format 1, of earlier versions, has only the
// list of files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/ids.h"
#include "base/replica_set.h"
#include "base/result.h"

namespace leeway {

inline constexpr const char* kManifestName = "checkpoint.json";

struct ManifestEntry {
  std::string name;
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3 of the content
};

// Where one worker's part is, and where the worker was.
struct ManifestShard {
  std::string name;  // one of the manifest's files
  WorkerId worker;
  int64_t update = 0;
  std::vector<int64_t> rounds = {};   // the next one, by lane
  std::vector<int64_t> answers = {};  // of a common model: the newest in it, by chunk
  uint64_t model_hash = 0;            // of what all replicas share; 0: they share nothing
  std::string holder = ".";           // whose folder has it: the run's own
};

// What a checkpoint has of the mesh. A replica is there with all its stages or not at all.
struct ManifestMesh {
  int64_t stages = 0;
  int64_t replicas = 0;  // of the recipe; those that are missing are cloned on resume
  int64_t table = 0;     // number of the table of members
  ReplicaSet members = {};
  std::vector<ManifestShard> shards = {};  // replica after replica, stage after stage
};

struct Manifest {
  int64_t update = 0;
  std::vector<ManifestEntry> files;
  ManifestMesh mesh = {};  // without shards: format 1
};

// The entry for a file that is in the folder.
Result<ManifestEntry> describe_file(const Path& folder, const std::string& name);

Status write_manifest(const Path& folder, const Manifest& manifest);
Result<Manifest> read_manifest(const Path& folder);

}  // namespace leeway
