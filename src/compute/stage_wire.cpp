#include "compute/stage_wire.h"

namespace leeway {

bool StageWire::is_plain() const {
  return format == WireFormat::kF32 || (format == WireFormat::kBf16 && type == at::kBFloat16);
}

at::Tensor StageWire::encoded(const at::Tensor& activation) const {
  if (is_plain()) return activation;
  return encode(format, activation.reshape({-1}).to(wide()), {});
}

at::Tensor StageWire::decoded(const at::Tensor& payload) const {
  if (is_plain()) return payload;
  return decode(format, payload, count(), wide()).view({sequences, context, width}).to(type);
}

bool StageWire::fits(const at::Tensor& payload) const {
  if (!is_plain()) return is_encoding(format, payload, count(), wide());
  return payload.defined() && payload.dim() == 3 && payload.size(0) == sequences &&
         payload.size(1) == context && payload.size(2) == width && payload.scalar_type() == type;
}

int64_t StageWire::bytes() const {
  if (is_plain()) return count() * static_cast<int64_t>(c10::elementSize(type));
  return encoded_bytes(format, count(), wide());
}

}  // namespace leeway
