// Muon: orthogonalized momentum for the 2-D weights of the blocks. Matrices of the same shape are
// orthogonalized together.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "base/parameters.h"
#include "kernels/update.h"
#include "optim/newton_schulz.h"

namespace leeway {

class MatrixPass {
 public:
  // Uses only the layout's matrices. Allocates all scratch.
  MatrixPass(const ParameterLayout& layout, const at::TensorOptions& buffers);

  // w <- keep w - rate sqrt(max(1, rows/cols)) orthogonalize(d), with d from the constants (whose
  // parts exclude the rate). Also writes the compute copy.
  void run(const StepConstants& constants, double rate, const PassTensors& tensors);

 private:
  // Matrices of one shape that are orthogonalized together.
  struct Batch {
    int64_t rows = 0;
    int64_t cols = 0;
    std::vector<Span> spans;  // one per matrix
    UpdatePieces pieces;      // all of them, cut up
    NewtonSchulzScratch scratch;
    double step_scale() const;
  };

  void add_batches(const std::vector<Parameter>& same_shape, const at::Device& device);
  void share_scratch(const at::TensorOptions& buffers);

  std::vector<Batch> batches_;
};

}  // namespace leeway
