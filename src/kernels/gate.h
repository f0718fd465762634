// What decides about an update, computed where its gradients are, so that nobody waits for it: the
// factor that clips them, and whether the update is made at all.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "kernels/gate_fields.h"

namespace leeway {

struct GateArguments {
  at::Tensor norms;        // squared, one per parameter, fp64; added up in this order
  at::Tensor total = {};   // squared norm of the whole model, fp64 [1]; undefined: the norms' sum
  at::Tensor losses = {};  // one per microbatch, the model's wide type; undefined: not known here
  double clip = 0;         // limit on the norm; 0: no clipping
  double factor = 1;       // for the gradients, before they are clipped
};

// A gate that is open.
at::Tensor make_gate(const at::Device& device);
void set_gate(const GateArguments& arguments, const at::Tensor& gate);

// Adds up in this order: the same bits however the parameters are cut into tensors. fp64 [1].
at::Tensor sum_in_order(const std::vector<at::Tensor>& numbers);

}  // namespace leeway
