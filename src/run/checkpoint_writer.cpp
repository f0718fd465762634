#include "run/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/human.h"
#include "checkpoint/checkpoint_folder.h"

namespace leeway {
namespace {

constexpr Nanos kBetweenTries{10'000'000'000};
constexpr uint64_t kTextBytes = 1 << 16;  // config.json, state.json and the manifest

}  // namespace

Result<Path> CheckpointWriter::write(SavedRun run) {
  waiting_ = std::move(run);
  return try_again();
}

Result<Path> CheckpointWriter::try_again() {
  tried_at_ = clock_.now();
  LEEWAY_TRY(folder_.check_present());
  LEEWAY_ASSIGN(const Path written, save_run(folder_.at("checkpoints"), *waiting_, keep_));
  waiting_.reset();
  return named(written);
}

std::optional<Path> CheckpointWriter::newest() const {
  const std::vector<Path> all = list_checkpoints(folder_.at("checkpoints"));
  return all.empty() ? std::nullopt : std::optional(named(all.back()));
}

Path CheckpointWriter::named(const Path& checkpoint) const {
  return folder_.path() / "checkpoints" / checkpoint.filename();
}

bool CheckpointWriter::again_due() const {
  return waiting_ && clock_.now() - tried_at_ >= kBetweenTries;
}

uint64_t checkpoint_bytes(int64_t parameters, int64_t bytes_per_value, int64_t replicas,
                          size_t buffers) {
  // The model, and each replica's buffers; several replicas also have weights of their own.
  const uint64_t own = buffers + (replicas > 1 ? 1 : 0);
  return static_cast<uint64_t>(parameters * bytes_per_value) *
         (1 + static_cast<uint64_t>(replicas) * own);
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
