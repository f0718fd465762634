// One common model, and what each replica has done beyond it (docs/averaging.md, `lowbit`):
//
//   w = X + p - l s
//
// X has the same bits on every replica: all apply the same answers in the same order. p is the sum
// of a replica's own steps that no answer has replaced. It is not stored: it is what the weights
// are beyond X, so whatever rounding does to the weights becomes a step, and is sent like one. What
// a lossy wire format drops stays in p, or with the owner in res (error feedback).
//
//   contribute  a = p - f; q = C(a); f += q                 f: own contributions under way
//               (a few need not be counted: f stays zero, and a = p - q1 - q2 in their order)
//   reduce      b = sum of q / members + res; Q = C(b); res = b - Q
//   merge       ub = y ub + (1 - y) Q; X += Q + gain ub
//               p -= q; s = l s + Q - q; f -= q             q: own contributions that Q has in it
//
// Everything that makes X is exact or rounded once per operation, element by element, in this
// order: any device and any vector width give the same bits.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "averaging/merge.h"
#include "averaging/wire.h"

namespace leeway {

struct LowbitOptions {
  WireFormat wire = WireFormat::kTernary;
  double threshold = kUsualThreshold;  // t of the code
  double smoothing = 0;                // l
  double gain = 0;
  double gain_smoothing = 0;  // y
};

// Flat, with the stage's size and the weights' type; undefined where the options need none.
struct LowbitBuffers {
  at::Tensor common;    // X
  at::Tensor flight;    // f
  at::Tensor pending;   // s: what merges have yet to apply; undefined if l = 0
  at::Tensor momentum;  // ub; undefined if gain = 0
  at::Tensor residual;  // res, for the chunks that this worker owns
};
// The weights are those that all replicas begin with.
LowbitBuffers make_lowbit_buffers(const LowbitOptions& options, const at::Tensor& weights);

// A contribution or an answer, decoded. What is exact has the weights' own type, which no lossy
// format has.
at::Tensor decode_steps(WireFormat wire, const at::Tensor& encoded, int64_t count,
                        at::ScalarType type);

// p on a chunk.
at::Tensor own_steps(const LowbitOptions& options, const Subset& subset, const at::Tensor& weights,
                     const LowbitBuffers& buffers);
// `subset` is always one chunk. Returns the encoded contribution and counts it as under way.
at::Tensor contribute_steps(const LowbitOptions& options, const Subset& subset,
                            const RandomKey& key, const at::Tensor& weights,
                            LowbitBuffers& buffers);
// While few are under way, which saves reading and writing f: `under_way` has all of them, as they
// were sent. Neither they nor the new one are counted in f.
at::Tensor contribute_uncounted(const LowbitOptions& options, const Subset& subset,
                                const RandomKey& key, const at::Tensor& weights,
                                const LowbitBuffers& buffers,
                                const std::vector<at::Tensor>& under_way);
// The same without a code, for a contribution that is exact.
at::Tensor unsent_steps(const LowbitOptions& options, const Subset& subset,
                        const at::Tensor& weights, const LowbitBuffers& buffers,
                        const std::vector<at::Tensor>& under_way);
// Of one that was not counted: f += q.
void count_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers);
struct ReducedSteps {
  at::Tensor answer;  // encoded
  at::Tensor sums;    // of the contributions: those of FiniteMean
};
// The contributions are encoded or exact, in ascending order of their replicas and numbers; those
// that are not finite throughout are left out. `members`: among how many replicas their sum is
// divided, whether or not all have contributed.
ReducedSteps reduce_steps(const LowbitOptions& options, const Subset& subset,
                          const std::vector<at::Tensor>& contributions, int64_t members,
                          const RandomKey& key, LowbitBuffers& buffers);

struct LowbitMergeArguments {
  Subset subset;
  at::Tensor answer;    // Q, encoded or exact
  at::Tensor own = {};  // q, likewise; undefined: nothing of this worker is in it
  bool counted = true;  // whether f has q in it
  at::Tensor weights;
  at::Tensor compute = {};  // as in MergeArguments
};
// The drift is that of q: this worker's own steps, which the answer replaces.
MergeSums merge_steps(const LowbitOptions& options, const LowbitMergeArguments& arguments,
                      LowbitBuffers& buffers);
// A contribution that no answer will ever have in it: its steps will be sent again.
void take_back_steps(const Subset& subset, const at::Tensor& sent, LowbitBuffers& buffers);

}  // namespace leeway
