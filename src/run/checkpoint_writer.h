// Writes a run's checkpoints. One that cannot be written (the disk is full, the folder is gone)
// stays in memory and is tried again, until it is on disk or a newer one takes its place.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/held_folder.h"
#include "checkpoint/saved_run.h"

namespace leeway {

class CheckpointWriter {
 public:
  CheckpointWriter(const HeldFolder& folder, int64_t keep, const Clock& clock)
      : folder_(folder), keep_(keep), clock_(clock) {}

  // The folder as the user named it. After an error, the checkpoint waits for try_again().
  Result<Path> write(SavedRun run);
  Result<Path> try_again();

  std::optional<Path> newest() const;  // that is complete, as the user named it

  const std::optional<SavedRun>& waiting() const { return waiting_; }
  bool again_due() const;  // something is waiting, and the last attempt was some time ago
  void give_up() { waiting_.reset(); }

 private:
  Path named(const Path& checkpoint) const;

  const HeldFolder& folder_;
  int64_t keep_;
  const Clock& clock_;
  std::optional<SavedRun> waiting_;
  Nanos tried_at_;
};

// What one checkpoint takes on disk, but for a few kilobytes of text.
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
