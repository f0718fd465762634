// Numbers on their way from a device to the host: on the CPU they are there at once, on a GPU once
// it has done what it was given by then.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "kernels/moment.h"

namespace leeway {

class Readout {
 public:
  Readout() = default;
  // `numbers`: fp64, one dimension.
  explicit Readout(const at::Tensor& numbers);

  // Whether they can be read without a wait, for certain.
  bool here() const { return arrived_ == nullptr; }
  // Waits for them if need be.
  double at(int64_t index) const;
  int64_t count() const { return numbers_.defined() ? numbers_.numel() : 0; }

 private:
  at::Tensor numbers_;  // on the host
  DeviceEvent arrived_;
};

}  // namespace leeway
