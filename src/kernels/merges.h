// One pass over a chunk's weights and buffers that merges what a round has answered
// (averaging/merge.h and averaging/lowbit.h have the rules). The twins give the same bits, except
// that on a GPU a weight stays as it is where the mean is not finite: there an owner cannot tell in
// time that no part of a round was finite.
#pragma once

#include <ATen/ATen.h>

#include "config/choices.h"
#include "kernels/round_loops.h"
#include "kernels/subset.h"

namespace leeway {

// `mean` and `sent` have the subset's values, all others are flat; in the weights' type, which is
// fp32 on a GPU. `sent` is undefined if nothing was sent; so are buffers of rules that are off.
struct MergedWeights {
  Subset subset;
  at::Tensor mean;
  at::Tensor sent;
  at::Tensor weights;
  at::Tensor ema;
  at::Tensor anchor;
  at::Tensor outer;
  at::Tensor compute;  // the copy for forwards, fp32 or bf16 (on the CPU also fp64), or undefined
};
// Returns fp64 sums of squares on the weights' device: [drift, correction]. Nothing waits for them.
at::Tensor merge_weights(const MergeConstants& constants, const MergedWeights& merged);

// `answer` and `own` have the subset's values; `own` is undefined if the answer has nothing of this
// worker in it.
struct MergedSteps {
  Subset subset;
  at::Tensor answer;
  at::Tensor own;
  at::Tensor weights;
  at::Tensor common;
  at::Tensor flight;  // undefined: it does not have them in it
  at::Tensor pending;
  at::Tensor momentum;
  at::Tensor compute;
};
at::Tensor merge_steps(const StepsConstants& constants, const MergedSteps& merged);
// The same, where `answer` and `own` are codes. Undefined, and nothing has changed, where no pass
// decodes on the way (kernels/wire_blocks.h), or where they are not codes.
at::Tensor merge_coded_steps(WireFormat format, const StepsConstants& constants,
                             const MergedSteps& merged);

}  // namespace leeway
