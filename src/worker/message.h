// What workers send each other: plain data that can be serialized. A driver carries messages and
// never looks inside.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "events/work.h"

namespace leeway {

enum class MessageKind : uint8_t {
  kActivation,    // microbatch `index`, to the next stage; `update`: the last requested save that
                  // comes before it, 0: none
  kGradient,      // of microbatch `index`, to the previous stage
  kNorms,         // squared gradient norms of update `index`, to stage 0 (synchronous schedules)
  kTotalNorm,     // the whole model's squared gradient norm for update `index`, from stage 0
  kEvaluation,    // activations of validation batch `index` of update `update`, to the next stage
  kEvaluated,     // batch `index` is done, from the last stage to stage 0
  kStop,          // from the driver to stage 0: end at the next possible flush point; from another
                  // replica to all stages: end with update `index`
  kFlushAt,       // from stage 0: the session ends with update `index`
  kSave,          // from the driver to stage 0: save at the next possible flush point and go on;
                  // from stage 0 of another replica to stage 0: it saves after update `index`
  kSaveAt,        // from stage 0: save after update `index`, for the checkpoint of update `update`
  kContribution,  // chunk `chunk` of round `index`, to its owner; without a payload: weight zero
  kAnswer,        // the mean of that chunk over `replicas`, from its owner to all replicas
  kDeadline,      // from the driver: stop waiting for parts of that chunk
  kAskAgain,      // to the owner: that answer has not arrived
};
inline constexpr int kMessageKinds = 14;

struct Message {
  MessageKind kind = MessageKind::kActivation;
  WorkerId from;
  WorkerId to;
  int64_t index = 0;
  int64_t update = 0;
  at::Tensor payload = {};    // undefined: none, or a simulation without compute
  int64_t payload_bytes = 0;  // set even where the payload itself is left out
  // Only for rounds:
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  ReplicaSet replicas = {};  // contribution: its sender, or empty; answer: those in the mean
};

// For links between processes: a fixed header with the payload's shape, then its values. Every
// field read back is checked: a message from the network is untrusted input.
std::vector<std::byte> to_bytes(const Message& message);
Result<Message> from_bytes(std::span<const std::byte> bytes);

}  // namespace leeway
