// Norms of flat buffers, for clipping, and distances: fp64, on the buffer's device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "base/parameters.h"

namespace leeway {

// Sum of (copy - weights)^2, [1]; the weights are fp32 or on the CPU fp64, the copy has their type
// or a narrower one. The order of the additions depends only on the length.
at::Tensor squared_distance(const at::Tensor& copy, const at::Tensor& weights);

// One sum of squares per parameter of a layout. The order of the additions depends only on the
// parameter's length, not on its offset or neighbours: added up in the model's order, they give the
// same bits however the model is cut into stages.
class ParameterNorms {
 public:
  ParameterNorms(const ParameterLayout& layout, const at::Device& device);

  at::Tensor squares(const at::Tensor& flat) const;  // [parameters]

 private:
  // Of one parameter, for one thread, or for one block of a GPU.
  struct Part {
    int64_t offset = 0;
    int64_t count = 0;
  };
  template <class Scalar>
  void sum_parts(const Scalar* values, std::vector<double>& sums) const;

  std::vector<Part> parts_;
  std::vector<int64_t> ends_;  // by parameter: the part after its last
  int64_t count_ = 0;          // elements
  at::Tensor on_device_;       // parts, then ends; undefined on the CPU
};

}  // namespace leeway
