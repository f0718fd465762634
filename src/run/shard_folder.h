// Where a process of a run puts the shards of its workers: checkpoints/shards/. A checkpoint that
// counts gets its own names for them. What is left when the session ends, or was left by one that
// was killed, belongs to no checkpoint and is removed.
#pragma once

#include <string>

#include "base/held_folder.h"
#include "checkpoint/shard.h"
#include "run/training_observer.h"
#include "worker/shard_store.h"

namespace leeway {

class ShardFolder final : public ShardStore {
 public:
  // `keeps`: what is there is of this session, which goes on.
  ShardFolder(const HeldFolder& folder, const TrainingObserver& observer, bool keeps = false);
  ~ShardFolder() override;
  ShardFolder(const ShardFolder&) = delete;
  ShardFolder& operator=(const ShardFolder&) = delete;

  Result<Stored> store(const StageState& state) override;
  std::shared_ptr<const StageState> newest_of(WorkerId worker) override;
  bool wait_to_store(const Error& error) override;

 private:
  const HeldFolder& folder_;
  const TrainingObserver& observer_;
  bool gave_up_ = false;
};

// What a worker saves, as it goes to a file.
Shard shard_of(const StageState& state);
// The file of a shard, through the folder's handle.
Path shard_path(const HeldFolder& folder, const std::string& file);

}  // namespace leeway
