// Rules that treat every element alike (AdamW, NAdamW, SGD): one pass over the flat buffers.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/parameters.h"
#include "kernels/update_loops.h"

namespace leeway {

// The flat buffers of an update. `variance` is undefined for rules without one; `compute` may be
// undefined. A preview writes only the compute copy: weights and moments do not change.
struct PassTensors {
  at::Tensor weights;
  at::Tensor gradients;
  at::Tensor momentum;
  at::Tensor variance;
  at::Tensor compute;
  bool preview = false;
};

// Adjacent parameters that are updated the same way.
struct Span {
  int64_t offset = 0;
  int64_t count = 0;
  bool decays = false;
};

// Weight decay is for weights that multiply activations, not for norms and biases.
inline bool decays(ParameterKind kind) { return kind != ParameterKind::kVector; }

// A piece of a span that fits the cache. Cut once, from the layout alone: the pieces do not depend
// on the number of threads.
struct UpdatePiece {
  int64_t offset = 0;
  int64_t scratch_offset = 0;  // where a matrix rule keeps this piece's direction
  int64_t count = 0;
  bool decays = false;
};
constexpr int64_t kPieceElements = 4096;
constexpr int64_t kPiecesPerThread = 8;  // minimum: with fewer, another thread does not pay off

// Appends the pieces of a span; its directions start at `scratch_offset`.
void append_pieces(const Span& span, int64_t scratch_offset, std::vector<UpdatePiece>& pieces);

// Writes a piece's new weights to the compute copy, if there is one.
template <class Scalar>
void write_compute_copy(const at::Tensor& compute, const Scalar* weights, const UpdatePiece& piece);

// One piece of the flat buffers. A preview works on a copy of it on the stack, so that the same
// loops can write to it.
template <class Scalar>
class PieceBuffers {
 public:
  PieceBuffers(const UpdatePiece& piece, const PassTensors& tensors);
  PieceBuffers(const PieceBuffers&) = delete;
  PieceBuffers& operator=(const PieceBuffers&) = delete;
  const ElementBlock<Scalar>& block() const { return block_; }

 private:
  Scalar* place(const at::Tensor& flat, const UpdatePiece& piece, bool preview, Scalar* copy);

  ElementBlock<Scalar> block_;
  std::array<Scalar, kPieceElements> weights_;  // left uninitialized outside a preview
  std::array<Scalar, kPieceElements> momentum_;
  std::array<Scalar, kPieceElements> variance_;
};

class ElementPass {
 public:
  explicit ElementPass(std::vector<Span> spans);

  // Updates momentum, variance, weights and compute copy of these spans. Weight decay applies only
  // to spans that decay. No heap allocations.
  void run_cpu(const StepConstants& constants, const PassTensors& tensors) const;

  // The same with ATen operations, for any device; leaves the compute copy to the caller.
  void run_aten(const StepConstants& constants, const PassTensors& tensors) const;

 private:
  std::vector<Span> spans_;
  std::vector<UpdatePiece> pieces_;
};

// One view of the flat buffer per span.
std::vector<at::Tensor> views_of(const at::Tensor& flat, const std::vector<Span>& spans);

}  // namespace leeway
