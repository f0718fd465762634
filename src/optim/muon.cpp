#include "optim/muon.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace leeway {
namespace {

// Elements that are orthogonalized together: enough to fill the matrix units, few enough that
// scratch stays small compared with a large model's weights.
constexpr int64_t kBatchElements = int64_t{1} << 24;

template <class Function>
void for_each_piece(const std::vector<UpdatePiece>& pieces, const Function& function) {
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), kPiecesPerThread,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) function(pieces[static_cast<size_t>(i)]);
                   });
}

}  // namespace

double MatrixPass::Batch::step_scale() const {
  return std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
}

MatrixPass::MatrixPass(const ParameterLayout& layout, const at::TensorOptions& buffers) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Parameter>> shapes;
  for (const Parameter& parameter : layout) {
    if (parameter.kind != ParameterKind::kMatrix) continue;
    shapes[{parameter.rows, parameter.cols}].push_back(parameter);
  }
  for (const auto& [shape, matrices] : shapes) add_batches(matrices);
  share_scratch(buffers);
}

void MatrixPass::add_batches(const std::vector<Parameter>& same_shape) {
  const int64_t elements = same_shape.front().count();
  const size_t batch_size = static_cast<size_t>(std::max<int64_t>(1, kBatchElements / elements));
  for (size_t first = 0; first < same_shape.size(); first += batch_size) {
    Batch batch;
    batch.rows = same_shape.front().rows;
    batch.cols = same_shape.front().cols;
    for (size_t i = first; i < std::min(first + batch_size, same_shape.size()); ++i) {
      const Span span = {.offset = same_shape[i].offset, .count = elements, .decays = true};
      append_pieces(span, static_cast<int64_t>(batch.spans.size()) * elements, batch.pieces);
      batch.spans.push_back(span);
    }
    batches_.push_back(std::move(batch));
  }
}

void MatrixPass::share_scratch(const at::TensorOptions& buffers) {
  int64_t matrix_elements = 0;
  int64_t gram_elements = 0;
  int64_t matrix_count = 0;
  for (const Batch& batch : batches_) {
    const int64_t count = static_cast<int64_t>(batch.spans.size());
    const int64_t smaller = std::min(batch.rows, batch.cols);
    matrix_elements = std::max(matrix_elements, count * batch.rows * batch.cols);
    gram_elements = std::max(gram_elements, count * smaller * smaller);
    matrix_count = std::max(matrix_count, count);
  }
  const at::TensorOptions options = buffers.dtype(newton_schulz_type(buffers));
  const bool half = newton_schulz_type(buffers) == at::kBFloat16;
  const std::vector<at::Tensor> storage = {
      at::empty({matrix_elements}, options), at::empty({matrix_elements}, options),
      at::empty({gram_elements}, options), at::empty({gram_elements}, options),
      at::empty({matrix_count}, half ? options.dtype(at::kFloat) : options)};
  for (Batch& batch : batches_) {
    const int64_t count = static_cast<int64_t>(batch.spans.size());
    const int64_t smaller = std::min(batch.rows, batch.cols);
    const auto view = [&](size_t index, int64_t rows, int64_t cols) {
      return storage[index].narrow(0, 0, count * rows * cols).view({count, rows, cols});
    };
    batch.scratch = {.x = view(0, batch.rows, batch.cols),
                     .next = view(1, batch.rows, batch.cols),
                     .gram = view(2, smaller, smaller),
                     .polynomial = view(3, smaller, smaller),
                     .norm = view(4, 1, 1)};
  }
}

template <class Scalar>
void MatrixPass::run_batch(Batch& batch, const StepConstants& constants, double rate,
                           const PassTensors& tensors) {
  // The directions are in scratch of the weights' own type (newton_schulz_type on the CPU).
  Scalar* const directions = batch.scratch.x.mutable_data_ptr<Scalar>();
  for_each_piece(batch.pieces, [&](const UpdatePiece& piece) {
    const PieceBuffers<Scalar> buffers(piece, tensors);
    ElementBlock<Scalar> block = buffers.block();
    block.direction = directions + piece.scratch_offset;
    direction_block(constants, block);
  });
  Scalar* const orthogonal = orthogonalize(batch.scratch).mutable_data_ptr<Scalar>();
  const double step = rate * batch.step_scale();
  for_each_piece(batch.pieces, [&](const UpdatePiece& piece) {
    const PieceBuffers<Scalar> buffers(piece, tensors);
    ElementBlock<Scalar> block = buffers.block();
    block.direction = orthogonal + piece.scratch_offset;
    apply_block(constants.weight_keep, step, block);
    write_compute_copy(tensors.compute, block.weights, piece);
  });
}

void MatrixPass::run_cpu(const StepConstants& constants, double rate, const PassTensors& tensors) {
  for (Batch& batch : batches_) {
    if (tensors.weights.scalar_type() == at::kDouble) {
      run_batch<double>(batch, constants, rate, tensors);
    } else {
      run_batch<float>(batch, constants, rate, tensors);
    }
  }
}

void MatrixPass::run_aten(const StepConstants& constants, double rate, const PassTensors& tensors) {
  const double scale = constants.gradient_scale;
  for (Batch& batch : batches_) {
    const std::vector<at::Tensor> weights = views_of(tensors.weights, batch.spans);
    const std::vector<at::Tensor> gradients = views_of(tensors.gradients, batch.spans);
    const std::vector<at::Tensor> momentum = views_of(tensors.momentum, batch.spans);
    at::_foreach_mul_(momentum, 1 - constants.momentum_share);
    at::_foreach_add_(momentum, gradients, constants.momentum_share * scale);

    // Summed in the weights' type; only the copy into scratch may round to bf16.
    at::Tensor direction = at::stack(momentum).mul_(constants.momentum_part);
    if (constants.gradient_part != 0) {
      direction.add_(at::stack(gradients), constants.gradient_part * scale);
    }
    batch.scratch.x.copy_(direction.view_as(batch.scratch.x));
    const at::Tensor steps = orthogonalize(batch.scratch).to(tensors.weights.scalar_type());

    if (constants.weight_keep != 1) at::_foreach_mul_(weights, constants.weight_keep);
    const int64_t count = static_cast<int64_t>(weights.size());
    at::_foreach_add_(weights, steps.view({count, -1}).unbind(), -rate * batch.step_scale());
  }
}

}  // namespace leeway
