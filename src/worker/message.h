// What workers tell each other: plain data that can be written to bytes. A driver carries messages;
// it never looks inside.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "events/work.h"

namespace leeway {

enum class MessageKind : uint8_t {
  kActivation,    // microbatch `index`, to the next stage
  kGradient,      // of microbatch `index`, to the stage before
  kNorms,         // squared gradient norms of update `index`, to stage 0 (synchronous schedules)
  kTotalNorm,     // the whole model's for update `index`, from stage 0: a scalar, squared
  kEvaluation,    // activations of validation batch `index` of update `update`, to the next stage
  kEvaluated,     // batch `index` is through, from the last stage to stage 0
  kStop,          // from the driver to stage 0: end at the next flush point you can name
  kFlushAt,       // from stage 0: the run ends with update `index`
  kContribution,  // chunk `chunk` of round `index`, to its owner; without a payload: weight zero
  kAnswer,        // the mean of that chunk over `replicas`, from its owner to all replicas
  kDeadline,      // from the driver: the time to wait for that chunk is over
  kAskAgain,      // that answer has not come; to its owner
};
inline constexpr int kMessageKinds = 12;
std::string_view message_kind_word(MessageKind kind);

struct Message {
  MessageKind kind = MessageKind::kActivation;
  WorkerId from;
  WorkerId to;
  int64_t index = 0;
  int64_t update = 0;
  at::Tensor payload = {};    // undefined: none, or the simulator without arithmetic
  int64_t payload_bytes = 0;  // also where the payload itself is left out
  // Of rounds alone:
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  ReplicaSet replicas = {};  // contribution: its sender, or nobody; answer: those in the mean
};

// For links between processes: a fixed header, then the payload's shape and numbers. What is read
// back is checked byte for byte: a message from the network is input like any other.
std::vector<std::byte> to_bytes(const Message& message);
Result<Message> from_bytes(std::span<const std::byte> bytes);

}  // namespace leeway
