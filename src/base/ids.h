// Strong types for ids and counters: a stage is not a replica is not an update.
#pragma once

#include <compare>
#include <cstdint>

namespace leeway {

template <class Tag>
struct Id {
  int64_t value = 0;
  auto operator<=>(const Id&) const = default;
};

using StageId = Id<struct StageTag>;            // 0 has the embedding, P-1 the head and the loss
using ReplicaId = Id<struct ReplicaTag>;        // one whole pipeline
using MicrobatchId = Id<struct MicrobatchTag>;  // counted from 0 in each replica
using UpdateId = Id<struct UpdateTag>;          // one optimizer step of a worker

// One stage of one replica: the unit that owns weights, optimizer state and a device.
struct WorkerId {
  ReplicaId replica;
  StageId stage;
  auto operator<=>(const WorkerId&) const = default;
};

}  // namespace leeway
