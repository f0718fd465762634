// Makes a run's checkpoints of the shards that its workers have written, and says how much room
// they need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/held_folder.h"
#include "checkpoint/saved_run.h"

namespace leeway {

class CheckpointWriter {
 public:
  CheckpointWriter(const HeldFolder& folder, int64_t keep) : folder_(folder), keep_(keep) {}

  struct Job {
    ShardedRun run;                          // paths: file names in the folder of shards
    std::vector<std::string> needless = {};  // files there that no checkpoint asks for any more
  };
  // From any thread, one at a time. The folder as the user named it.
  Result<JoinedRun> write(const Job& job) const;

  std::optional<Path> newest() const;  // that is complete, as the user named it

 private:
  Path named(const Path& checkpoint) const;

  const HeldFolder& folder_;
  int64_t keep_;
};

// What one checkpoint takes on disk while it is written, but for a few kilobytes of text. With
// several replicas the model is written again when more of them have come.
uint64_t checkpoint_bytes(int64_t parameters, int64_t bytes_per_value, int64_t replicas,
                          size_t buffers);

// An error if the disk has no room for one checkpoint. A warning (empty: none) if it has none for
// all that are there at once: `keep` and the one being written, less those that are there already.
struct Room {
  uint64_t free_bytes;
  uint64_t checkpoint_bytes;
  int64_t keep;
  int64_t there_already;
};
Result<std::string> check_room(const Room& room, const Path& folder);

}  // namespace leeway
