#include "run/shard_folder.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"

namespace leeway {
namespace {

Path shards_of(const HeldFolder& folder) { return folder.at("checkpoints") / "shards"; }

}  // namespace

Path shard_path(const HeldFolder& folder, const std::string& file) {
  return shards_of(folder) / file;
}

ShardFolder::ShardFolder(const HeldFolder& folder, const TrainingObserver& observer, bool keeps)
    : folder_(folder), observer_(observer) {
  if (!keeps) static_cast<void>(remove_tree(shards_of(folder_)));
}

ShardFolder::~ShardFolder() { static_cast<void>(remove_tree(shards_of(folder_))); }

Shard shard_of(const StageState& state) {
  return {.worker = state.worker,
          .update = state.update,
          .weights = state.weights,
          .optimizer = state.optimizer,
          .rounds = state.rounds,
          .chunks = state.chunks,
          .sent = state.sent};
}

Result<ShardStore::Stored> ShardFolder::store(const StageState& state) {
  LEEWAY_TRY(folder_.check_present());
  LEEWAY_TRY(make_folder(shards_of(folder_)));
  const std::string file = fmt::format("update-{:08}.{}", state.update, shard_name(state.worker));
  LEEWAY_TRY(write_shard(shard_path(folder_, file), shard_of(state)));
  LEEWAY_ASSIGN(const ManifestEntry entry, describe_file(shards_of(folder_), file));
  return Stored{.file = file, .size = entry.bytes, .hash = entry.hash};
}

// It waits for its checkpoint, or is part of one.
std::shared_ptr<const StageState> ShardFolder::newest_of(WorkerId worker) {
  std::vector<Path> files;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(shards_of(folder_), ignored)) {
    if (file.path().filename().string().ends_with("." + shard_name(worker)))
      files.push_back(file.path());
  }
  for (const Path& checkpoint : named_checkpoints(folder_.at("checkpoints"))) {
    files.push_back(checkpoint / shard_name(worker));
  }
  std::shared_ptr<StageState> newest;
  for (const Path& file : files) {
    const Result<Shard> shard = read_shard(file);
    if (!shard || shard->worker != worker || (newest && newest->update >= shard->update)) continue;
    newest = std::make_shared<StageState>(StageState{.worker = worker,
                                                     .update = shard->update,
                                                     .weights = shard->weights,
                                                     .optimizer = shard->optimizer,
                                                     .rounds = shard->rounds});
  }
  return newest;
}

bool ShardFolder::wait_to_store(const Error& error) {
  const bool may = !gave_up_ && folder_.check_present().ok() && observer_.wait_to_save;
  gave_up_ =
      !may || !observer_.wait_to_save(Error{"the last checkpoint is not saved: " + error.message});
  return !gave_up_;
}

}  // namespace leeway
