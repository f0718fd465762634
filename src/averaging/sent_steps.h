// A worker's own contribution to a chunk of the common model, for a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace leeway {

struct SentSteps {
  int64_t chunk = 0;
  int64_t number = 0;
  at::Tensor payload;  // as it was sent
};

}  // namespace leeway
