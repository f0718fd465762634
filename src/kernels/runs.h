// Copies a subset's values out of a stage's flat buffers and back.
#pragma once

#include <ATen/ATen.h>

#include "kernels/subset.h"

namespace leeway {

// A new tensor [subset.count()] of the flat buffer's type and device.
at::Tensor gather(const Subset& subset, const at::Tensor& flat);
// The values may have another floating type: they are rounded once.
void scatter(const Subset& subset, const at::Tensor& values, const at::Tensor& flat);
// Zeros there.
void clear(const Subset& subset, const at::Tensor& flat);

}  // namespace leeway
