// Averages the replicas' steps in few bits (docs/averaging.md, `lowbit`). What a lossy wire format
// drops is kept and sent later (error feedback), at the sender and at the owner.
//
//   contribute  a = acc + steps; q = C(a); acc = a - q         (acc already includes the steps)
//   reduce      b = mean q + res; Q = C(b); res = b - Q
//   merge       s = l s + Q - q; w += (1 - l) s; ub = y ub + (1 - y) Q; w += gain ub
//   if q is not in the answer:   acc += q; w += Q, and ub as above
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "averaging/merge.h"
#include "averaging/wire.h"

namespace leeway {

struct LowbitOptions {
  WireFormat wire = WireFormat::kTernary;
  double smoothing = 0;  // l
  double gain = 0;
  double gain_smoothing = 0;  // y
};

// Flat, with the stage's size and the weights' type; undefined where the options need none.
struct LowbitBuffers {
  at::Tensor unsent;    // acc
  at::Tensor pending;   // s: what merges have yet to apply; undefined if l = 0
  at::Tensor momentum;  // ub; undefined if gain = 0
  at::Tensor residual;  // res, for the chunks that this worker owns
};
LowbitBuffers make_lowbit_buffers(const LowbitOptions& options, const at::Tensor& weights);

// Call after an optimizer step: adds the step to `unsent`.
void add_steps(const at::Tensor& before, const at::Tensor& weights, LowbitBuffers& buffers);

// `subset` is always one chunk. Returns the encoded contribution and updates the buffers.
at::Tensor contribute_steps(const LowbitOptions& options, const Subset& subset,
                            const RandomKey& key, LowbitBuffers& buffers);
// The contributions are decoded, in ascending order of their replicas.
at::Tensor reduce_steps(const LowbitOptions& options, const Subset& subset,
                        const std::vector<at::Tensor>& contributions, const RandomKey& key,
                        LowbitBuffers& buffers);

struct LowbitMergeArguments {
  Subset subset;
  at::Tensor answer;        // Q, decoded
  at::Tensor sent = {};     // q, decoded; undefined: this worker sent nothing
  bool contributed = true;  // whether q is in Q
  at::Tensor weights;
  at::Tensor compute = {};  // as in MergeArguments
};
// The drift is that of q: this worker's own steps, which the answer replaces.
MergeNorms merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                       LowbitBuffers& buffers);
// The part that changes weights, pending and momentum, with ATen as in merge_aten().
MergeNorms merge_steps_aten(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                            LowbitBuffers& buffers);
// If the answer will not come, or the run flushes: adds what was sent back to `unsent`.
void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers);

}  // namespace leeway
