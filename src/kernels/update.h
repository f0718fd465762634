// One update as passes over a stage's flat buffers, on the CPU or on a GPU, with the same bits.
//
// A pass goes over pieces of the buffers that were cut once, from the layout alone: they do not
// depend on the number of threads. On a GPU a piece is a block's work.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "kernels/update_loops.h"

namespace leeway {

// The flat buffers of an update. `variance` is undefined for rules without one; `compute` may be
// undefined. A preview writes only the compute copy: weights and moments do not change. Moments
// have the weights' type, or are bf16 beside fp32: computed with in fp32, and rounded by chance, as
// an average of steps smaller than half a unit in the last place would otherwise not move.
struct PassTensors {
  at::Tensor weights;
  at::Tensor gradients;
  at::Tensor momentum;
  at::Tensor variance;
  at::Tensor compute;
  bool preview = false;
  at::Tensor gate = {};   // kernels/gate.h; undefined: the constants say everything
  uint64_t rounding = 0;  // moments in bf16: the key of what is drawn to round them, as one number
};

// Adjacent parameters that are updated the same way.
struct Span {
  int64_t offset = 0;
  int64_t count = 0;
  bool decays = false;
};

// A piece of a span that fits the cache.
struct UpdatePiece {
  int64_t offset = 0;
  int64_t scratch_offset = 0;  // where a matrix rule keeps this piece's direction
  int64_t count = 0;
  int64_t decays = 0;
};
constexpr int64_t kPieceElements = 4096;
constexpr int64_t kPiecesPerThread = 8;  // minimum: with fewer, another thread does not pay off

// Pieces of spans, and the same list on the device that the buffers are on.
class UpdatePieces {
 public:
  UpdatePieces() = default;
  // Directions of the spans follow each other.
  UpdatePieces(const std::vector<Span>& spans, const at::Device& device);
  const std::vector<UpdatePiece>& list() const { return list_; }
  const at::Tensor& on_device() const { return on_device_; }  // undefined on the CPU
  bool empty() const { return list_.empty(); }

 private:
  std::vector<UpdatePiece> list_;
  at::Tensor on_device_;
};

// Rules that treat every element alike: Adam's if there is a variance, else momentum's. Updates
// momentum, variance, weights and compute copy. Weight decay applies only to pieces that decay. No
// heap allocations on the CPU.
void element_pass(const UpdatePieces& pieces, const StepConstants& constants,
                  const PassTensors& tensors);

// The two halves of a matrix rule: updates the momentum and writes the directions, in the order of
// the pieces; and takes a step along what became of them. Directions have the weights' type, on a
// GPU bf16.
void direction_pass(const UpdatePieces& pieces, const StepConstants& constants,
                    const PassTensors& tensors, const at::Tensor& directions);
void apply_pass(const UpdatePieces& pieces, double weight_keep, double step,
                const PassTensors& tensors, const at::Tensor& directions);

}  // namespace leeway
