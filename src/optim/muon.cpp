#include "optim/muon.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace leeway {
namespace {

// Elements that are orthogonalized together: enough to fill the matrix units, few enough that
// scratch stays small compared with a large model's weights.
constexpr int64_t kBatchElements = int64_t{1} << 24;

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
  for (const auto& [shape, matrices] : shapes) add_batches(matrices, buffers.device());
  share_scratch(buffers);
}

void MatrixPass::add_batches(const std::vector<Parameter>& same_shape, const at::Device& device) {
  const int64_t elements = same_shape.front().count();
  const size_t batch_size = static_cast<size_t>(std::max<int64_t>(1, kBatchElements / elements));
  for (size_t first = 0; first < same_shape.size(); first += batch_size) {
    Batch batch;
    batch.rows = same_shape.front().rows;
    batch.cols = same_shape.front().cols;
    for (size_t i = first; i < std::min(first + batch_size, same_shape.size()); ++i) {
      batch.spans.push_back({.offset = same_shape[i].offset, .count = elements, .decays = true});
    }
    batch.pieces = UpdatePieces(batch.spans, device);
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

void MatrixPass::run(const StepConstants& constants, double rate, const PassTensors& tensors) {
  for (Batch& batch : batches_) {
    direction_pass(batch.pieces, constants, tensors, batch.scratch.x);
    const at::Tensor& steps = orthogonalize(batch.scratch);
    apply_pass(batch.pieces, constants.weight_keep, rate * batch.step_scale(), tensors, steps);
  }
}

}  // namespace leeway
