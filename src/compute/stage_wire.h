// What stages of a pipeline send each other for a microbatch: activations or their gradients,
// [sequences, context, width], as they are or in one of the wire formats.
#pragma once

#include <ATen/ATen.h>

#include "averaging/wire.h"

namespace leeway {

struct StageWire {
  WireFormat format = WireFormat::kF32;  // as they are
  int64_t sequences = 0;
  int64_t context = 0;
  int64_t width = 0;
  at::ScalarType type = at::kFloat;  // that stages compute with

  at::Tensor encoded(const at::Tensor& activation) const;
  at::Tensor decoded(const at::Tensor& payload) const;  // of one that fits
  bool fits(const at::Tensor& payload) const;
  int64_t bytes() const;  // of a payload

 private:
  bool is_plain() const;
  int64_t count() const { return sequences * context * width; }
  at::ScalarType wide() const { return type == at::kDouble ? at::kDouble : at::kFloat; }
};

}  // namespace leeway
