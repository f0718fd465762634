#include "optim/elementwise.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

template <class Scalar>
void copy_piece(const at::Tensor& compute, const Scalar* weights, const Piece& piece) {
  if (!compute.defined()) return;
  const Scalar* const from = weights + piece.offset;
  switch (compute.scalar_type()) {
    case at::kFloat:
      copy_block(from, piece.count, compute.mutable_data_ptr<float>() + piece.offset);
      return;
    case at::kDouble:
      copy_block(from, piece.count, compute.mutable_data_ptr<double>() + piece.offset);
      return;
    case at::kBFloat16:
      copy_block(from, piece.count,
                 static_cast<uint16_t*>(compute.mutable_data_ptr()) + piece.offset);
      return;
    default:
      LEEWAY_UNREACHABLE("a compute copy is fp32, fp64 or bf16");
  }
}

template <class Scalar>
void run_pieces(const std::vector<Piece>& pieces, const StepConstants& constants,
                const PassTensors& tensors) {
  Scalar* const weights = tensors.weights.mutable_data_ptr<Scalar>();
  const Scalar* const gradients = tensors.gradients.const_data_ptr<Scalar>();
  Scalar* const momentum = tensors.momentum.mutable_data_ptr<Scalar>();
  const bool adam = tensors.variance.defined();
  Scalar* const variance = adam ? tensors.variance.mutable_data_ptr<Scalar>() : nullptr;
  StepConstants without_decay = constants;
  without_decay.weight_keep = 1;

  const auto run_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const Piece& piece = pieces[static_cast<size_t>(index)];
      const ElementBlock<Scalar> block = {.count = piece.count,
                                          .weights = weights + piece.offset,
                                          .gradients = gradients + piece.offset,
                                          .momentum = momentum + piece.offset,
                                          .variance = adam ? variance + piece.offset : nullptr,
                                          .direction = nullptr};
      const StepConstants& own = piece.decays ? constants : without_decay;
      if (adam) {
        adam_block(own, block);
      } else {
        momentum_block(own, block);
      }
      copy_piece(tensors.compute, weights, piece);
    }
  };
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), kPiecesPerThread, run_range);
}

}  // namespace

void append_pieces(const Span& span, int64_t scratch_offset, std::vector<Piece>& pieces) {
  for (int64_t done = 0; done < span.count; done += kPieceElements) {
    pieces.push_back({.offset = span.offset + done,
                      .scratch_offset = scratch_offset + done,
                      .count = std::min(kPieceElements, span.count - done),
                      .decays = span.decays});
  }
}

void write_compute_copy(const at::Tensor& compute, const float* weights, const Piece& piece) {
  copy_piece(compute, weights, piece);
}
void write_compute_copy(const at::Tensor& compute, const double* weights, const Piece& piece) {
  copy_piece(compute, weights, piece);
}

std::vector<at::Tensor> views_of(const at::Tensor& flat, const std::vector<Span>& spans) {
  std::vector<at::Tensor> views;
  views.reserve(spans.size());
  for (const Span& span : spans) views.push_back(flat.narrow(0, span.offset, span.count));
  return views;
}

ElementPass::ElementPass(std::vector<Span> spans) : spans_(std::move(spans)) {
  for (const Span& span : spans_) append_pieces(span, 0, pieces_);
}

void ElementPass::run_cpu(const StepConstants& constants, const PassTensors& tensors) const {
  if (tensors.weights.scalar_type() == at::kDouble) {
    run_pieces<double>(pieces_, constants, tensors);
  } else {
    run_pieces<float>(pieces_, constants, tensors);
  }
}

void ElementPass::run_aten(const StepConstants& constants, const PassTensors& tensors) const {
  if (spans_.empty()) return;
  // Lists of views: one launch per operation, however many spans there are.
  const std::vector<at::Tensor> weights = views_of(tensors.weights, spans_);
  const std::vector<at::Tensor> gradients = views_of(tensors.gradients, spans_);
  const std::vector<at::Tensor> momentum = views_of(tensors.momentum, spans_);
  const double scale = constants.gradient_scale;
  const double gradient_part = constants.gradient_part * scale;

  at::_foreach_mul_(momentum, 1 - constants.momentum_share);
  at::_foreach_add_(momentum, gradients, constants.momentum_share * scale);
  if (constants.weight_keep != 1) {
    std::vector<at::Tensor> decaying;
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].decays) decaying.push_back(weights[i]);
    }
    if (!decaying.empty()) at::_foreach_mul_(decaying, constants.weight_keep);
  }
  if (!tensors.variance.defined()) {
    at::_foreach_add_(weights, momentum, -constants.momentum_part);
    if (gradient_part != 0) at::_foreach_add_(weights, gradients, -gradient_part);
    return;
  }
  const std::vector<at::Tensor> variance = views_of(tensors.variance, spans_);
  at::_foreach_mul_(variance, constants.variance_keep);
  at::_foreach_addcmul_(variance, gradients, gradients,
                        (1 - constants.variance_keep) * scale * scale);
  const std::vector<at::Tensor> root = at::_foreach_sqrt(variance);
  at::_foreach_mul_(root, constants.root_scale);
  at::_foreach_add_(root, constants.epsilon);
  at::_foreach_addcdiv_(weights, momentum, root, -constants.momentum_part);
  if (gradient_part != 0) at::_foreach_addcdiv_(weights, gradients, root, -gradient_part);
}

}  // namespace leeway
