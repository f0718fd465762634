#include "worker/packing.h"

#include <algorithm>
#include <optional>

#include "averaging/wire.h"

namespace leeway {
namespace {

struct Packable {
  WireFormat format = WireFormat::kF32;
  int64_t count = 0;
  at::ScalarType type = at::kFloat;
};

// The message may come from the network: it is checked later by its worker.
std::optional<Packable> packable(const RunPlan& plan, const Message& message) {
  const bool steps =
      message.kind == MessageKind::kContribution || message.kind == MessageKind::kAnswer;
  if (!steps || message.whole || !message.payload.defined()) return std::nullopt;
  const auto lane = std::ranges::find(plan.lanes, message.lane, &LanePlan::lane);
  const auto stage = static_cast<size_t>(message.to.stage.value);
  if (lane == plan.lanes.end() || !lane->common || stage >= lane->sizes.size()) return std::nullopt;
  const ChunkSizes& sizes = lane->sizes[stage];
  if (message.chunk < 0 || message.chunk >= sizes.chunks) return std::nullopt;
  return Packable{.format = sizes.wire,
                  .count = Cut(sizes.cut).count(0, message.chunk, sizes.chunks),
                  .type = sizes.type};
}

}  // namespace

void Packer::pack_for_others(Message& message) {
  if (!message.payload.defined() || message.payload.is_cpu()) return;
  const auto what = packable(plan_, message);
  if (!what) return;
  if (!message.payload.is_same(payload_)) {
    payload_ = message.payload;
    packed_ = pack(what->format, payload_.cpu(), what->count);
  }
  message.payload = packed_;
  message.payload_bytes = static_cast<int64_t>(packed_.nbytes());
}

void unpack_from_others(const RunPlan& plan, Message& message) {
  const auto what = packable(plan, message);
  if (!what || message.payload.scalar_type() != at::kByte) return;  // the last of a run are exact
  const bool sound = is_packed(what->format, message.payload, what->count, what->type);
  message.payload = sound ? unpack(what->format, message.payload, what->count)
                          : at::empty({0}, message.payload.options());
  message.payload_bytes = static_cast<int64_t>(message.payload.nbytes());
}

}  // namespace leeway
