// Answers of a common model, for tests of those who file and apply them.
#pragma once

#include <utility>
#include <vector>

#include "worker/message.h"

namespace leeway {

inline Message answer(int64_t number, std::vector<PartId> parts, int64_t since = 0) {
  Message message = {.kind = MessageKind::kAnswer, .from = {}, .to = {}, .index = number};
  message.parts = std::move(parts);
  message.since = since;
  return message;
}

}  // namespace leeway
