#include "run/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/human.h"
#include "checkpoint/checkpoint_folder.h"
#include "run/shard_folder.h"

namespace leeway {
namespace {

constexpr uint64_t kTextBytes = 1 << 16;  // config.json, state.json and the manifest

}  // namespace

Result<JoinedRun> CheckpointWriter::write(const Job& job) const {
  LEEWAY_TRY(folder_.check_present());
  // A checkpoint relies on what the log says up to it.
  LEEWAY_TRY(sync_file(folder_.at("events.jsonl")));
  ShardedRun run = job.run;
  for (ShardFile& shard : run.shards) shard.path = shard_path(folder_, shard.path);
  LEEWAY_ASSIGN(JoinedRun joined, join_shards(folder_.at("checkpoints"), run, keep_));
  for (const std::string& file : job.needless) {
    const bool used = std::ranges::any_of(
        job.run.shards, [&](const ShardFile& shard) { return shard.path == file; });
    if (used) continue;       // saved again since, under the same name
    std::error_code ignored;  // one that stays does no harm
    std::filesystem::remove(shard_path(folder_, file), ignored);
  }
  joined.path = named(joined.path);
  return joined;
}

std::optional<Path> CheckpointWriter::newest() const {
  const std::vector<Path> all = list_checkpoints(folder_.at("checkpoints"));
  return all.empty() ? std::nullopt : std::optional(named(all.back()));
}

Path CheckpointWriter::named(const Path& checkpoint) const {
  return folder_.path() / "checkpoints" / checkpoint.filename();
}

uint64_t checkpoint_bytes(int64_t parameters, int64_t bytes_per_value, int64_t replicas,
                          size_t buffers) {
  const uint64_t models = replicas > 1 ? 2 : 1;
  return static_cast<uint64_t>(parameters * bytes_per_value) *
         (models + static_cast<uint64_t>(replicas) * (1 + buffers));
}

Result<std::string> check_room(const Room& room, const Path& folder) {
  const uint64_t one = room.checkpoint_bytes + kTextBytes;
  if (room.free_bytes < one) {
    return Error{fmt::format(
        "{} has room for {}, but a checkpoint of this run takes {}; free some space, or choose "
        "another --out",
        folder.string(), shown_bytes(static_cast<double>(room.free_bytes)),
        shown_bytes(static_cast<double>(one)))};
  }
  const auto missing = std::max<int64_t>(1, room.keep + 1 - room.there_already);
  const double all = static_cast<double>(one) * static_cast<double>(missing);
  if (static_cast<double>(room.free_bytes) >= all) return std::string();
  return fmt::format(
      "{} has room for {}, but run.keep = {} takes {}: free some space before saves fail, or keep "
      "fewer",
      folder.string(), shown_bytes(static_cast<double>(room.free_bytes)), room.keep,
      shown_bytes(all));
}

}  // namespace leeway
