// Averaging what replicas did, in few bits: DESIGN section 2, `lowbit`. What a lossy wire cannot
// say now is kept and said later (error feedback), at the sender and at the owner.
//
//   contribute  a = acc + steps; q = C(a); acc = a - q         (acc holds acc + steps already)
//   reduce      b = mean q + res; Q = C(b); res = b - Q
//   merge       s = l s + Q - q; w += (1 - l) s; ub = y ub + (1 - y) Q; w += gain ub
//   not among the contributors of the answer:   acc += q; w += Q, and ub as above
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

// Flat, of the stage's size and of the weights' type; undefined where the options need none.
struct LowbitBuffers {
  at::Tensor unsent;    // acc
  at::Tensor pending;   // s: what merges still have to give; undefined with l = 0
  at::Tensor momentum;  // ub; undefined with gain = 0
  at::Tensor residual;  // res, of the chunks that this worker owns
};
LowbitBuffers make_lowbit_buffers(const LowbitOptions& options, const at::Tensor& weights);

// After an optimizer step: remembers what was done.
void add_steps(const at::Tensor& before, const at::Tensor& weights, LowbitBuffers& buffers);

// `subset` is a chunk throughout. Encoded, ready to travel; the buffers have moved on.
at::Tensor contribute_steps(const LowbitOptions& options, const Subset& subset,
                            const RandomKey& key, LowbitBuffers& buffers);
// From decoded contributions in ascending order of their replicas.
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
// Its drift is of q: what this worker had done by itself, and the answer replaces.
MergeNorms merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                       LowbitBuffers& buffers);
// The part of it that changes weights, pending and momentum, as in merge_aten().
MergeNorms merge_steps_aten(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                            LowbitBuffers& buffers);
// The answer will not come, or the run flushes: what was sent goes back to what is to be sent.
void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers);

}  // namespace leeway
