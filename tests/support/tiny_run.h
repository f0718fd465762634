// The state of a run of a tiny model, to save and load.
#pragma once

#include <ATen/ATen.h>

#include "checkpoint/saved_run.h"
#include "model/stage_model.h"

namespace leeway {

inline ModelShape tiny_shape() {
  return {.layers = 1,
          .width = 4,
          .heads = 2,
          .kv_heads = 1,
          .hidden = 3,
          .context = 5,
          .vocabulary = 7};
}

// Replica r has r more of everything. A real model is the mean of its replicas; here it only has to
// differ from them.
inline SavedRun tiny_run(int64_t replicas = 1) {
  const ModelShape shape = tiny_shape();
  const int64_t count = parameter_count(slice_layout(shape, whole_model(shape)));
  const at::Tensor ramp = at::arange(count, at::kFloat);
  SavedRun run = {.counters = {.update = 12,
                               .seconds = 3.5,
                               .seconds_updating = 2.25,
                               .recent_losses = {4.5, 0.1},
                               .tokenizer_hash = 0xFEDCBA9876543210,  // more bits than a double has
                               .data_hash = 1},
                  .shape = shape,
                  .state = {.weights = ramp / 7, .replicas = {}}};
  for (int64_t r = 0; r < replicas; ++r) {
    run.state.replicas.push_back(
        {.weights = replicas == 1 ? run.state.weights : ramp / 7 + r,
         .optimizer = {.buffers = {{"momentum", ramp / 3 + r}, {"variance", ramp + 1 + r}},
                       .updates = 11 + r,
                       .momentum_product = 0.3},
         .rounds = {{5 + r, 2}, {6 + r, 2}}});
  }
  return run;
}

}  // namespace leeway
