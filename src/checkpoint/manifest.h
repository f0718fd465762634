// checkpoint.json: what a checkpoint's folder holds. It is written last, so its presence says that
// the rest was written, and its hashes say that the rest is still what it was.
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

// The entry of a file that lies in the folder now.
Result<ManifestEntry> describe_file(const Path& folder, const std::string& name);

Status write_manifest(const Path& folder, const Manifest& manifest);
Result<Manifest> read_manifest(const Path& folder);

}  // namespace leeway
