#include "worker/shard_store.h"

#include <bit>
#include <memory>
#include <utility>

namespace leeway {
namespace {

ShardSaved saved_of(const StageState& state) {
  return {.worker = state.worker,
          .update = state.update,
          .checkpoint = state.checkpoint,
          .last = state.last,
          .rounds = state.rounds,
          .chunks = state.chunks,
          .model_hash = state.model_hash,
          .bytes = state.bytes};
}

Message message_about(const StageState& state, ShardSaved saved) {
  Message message = {.kind = MessageKind::kStored,
                     .from = state.worker,
                     .to = state.worker,
                     .index = state.update};
  message.report = std::make_shared<const Report>(std::move(saved));
  return message;
}

}  // namespace

bool makes_room(const StageState& waiting, const StageState& newer) {
  const auto powers = [](int64_t checkpoint) {
    return std::countr_zero(static_cast<uint64_t>(checkpoint));
  };
  return newer.last || powers(newer.checkpoint) >= powers(waiting.checkpoint);
}

Message stored_message(const StageState& state, const Result<ShardStore::Stored>& stored) {
  ShardSaved saved = saved_of(state);
  if (stored.ok()) {
    saved.file = stored->file;
    saved.size = stored->size;
    saved.hash = stored->hash;
  } else {
    saved.error = stored.error().message;
  }
  return message_about(state, std::move(saved));
}

Message store_again_message(const StageState& state, const Error& error) {
  ShardSaved saved = saved_of(state);
  saved.error = error.message;
  saved.again = true;
  return message_about(state, std::move(saved));
}

Message replaced_message(const StageState& state) {
  ShardSaved saved = saved_of(state);
  saved.error = "the disk was busy, and another state took its place";
  saved.replaced = true;
  return message_about(state, std::move(saved));
}

}  // namespace leeway
