// checkpoint.json: what a checkpoint's folder contains. It is written last, so its presence means
// that the rest was written, and its hashes show whether the rest is still unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

inline constexpr const char* kManifestName = "checkpoint.json";

struct ManifestEntry {
  std::string name;
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3 of the content
};

struct Manifest {
  int64_t update = 0;
  std::vector<ManifestEntry> files;
};

// The entry for a file that is in the folder.
Result<ManifestEntry> describe_file(const Path& folder, const std::string& name);

Status write_manifest(const Path& folder, const Manifest& manifest);
Result<Manifest> read_manifest(const Path& folder);

}  // namespace leeway
