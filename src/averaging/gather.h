// Copies a subset's values out of a stage's flat buffers and back.
#pragma once

#include <ATen/ATen.h>

#include "averaging/subset.h"

namespace leeway {

// A new tensor [subset.count()] of the flat buffer's type and device.
at::Tensor gather(const Subset& subset, const at::Tensor& flat);
// The values may have another floating type: they are rounded once.
void scatter(const Subset& subset, const at::Tensor& values, const at::Tensor& flat);

// A subset for ATen on any device: a contiguous range of the buffer, or a list of coordinates that
// is made once for all buffers of a merge.
class SubsetView {
 public:
  SubsetView(const Subset& subset, const at::Device& device);

  at::Tensor gather(const at::Tensor& flat) const;
  void scatter(const at::Tensor& values, const at::Tensor& flat) const;

 private:
  int64_t count_ = 0;
  int64_t offset_ = 0;      // start of the range
  at::Tensor coordinates_;  // undefined: a contiguous range
};

}  // namespace leeway
