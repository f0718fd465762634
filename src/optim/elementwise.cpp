#include "optim/elementwise.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

template <class Scalar>
void run_pieces(const std::vector<UpdatePiece>& pieces, const StepConstants& constants,
                const PassTensors& tensors) {
  const bool adam = tensors.variance.defined();
  StepConstants without_decay = constants;
  without_decay.weight_keep = 1;

  const auto run_range = [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const UpdatePiece& piece = pieces[static_cast<size_t>(index)];
      const PieceBuffers<Scalar> buffers(piece, tensors);
      const StepConstants& own = piece.decays ? constants : without_decay;
      if (adam) {
        adam_block(own, buffers.block());
      } else {
        momentum_block(own, buffers.block());
      }
      write_compute_copy(tensors.compute, buffers.block().weights, piece);
    }
  };
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), kPiecesPerThread, run_range);
}

}  // namespace

template <class Scalar>
PieceBuffers<Scalar>::PieceBuffers(const UpdatePiece& piece, const PassTensors& tensors) {
  const bool preview = tensors.preview;
  block_ = {.count = piece.count,
            .weights = place(tensors.weights, piece, preview, weights_.data()),
            .gradients = tensors.gradients.const_data_ptr<Scalar>() + piece.offset,
            .momentum = place(tensors.momentum, piece, preview, momentum_.data()),
            .variance = place(tensors.variance, piece, preview, variance_.data()),
            .direction = nullptr};
}

template <class Scalar>
Scalar* PieceBuffers<Scalar>::place(const at::Tensor& flat, const UpdatePiece& piece, bool preview,
                                    Scalar* copy) {
  if (!flat.defined()) return nullptr;
  if (!preview) return flat.mutable_data_ptr<Scalar>() + piece.offset;
  std::copy_n(flat.const_data_ptr<Scalar>() + piece.offset, piece.count, copy);
  return copy;
}

template <class Scalar>
void write_compute_copy(const at::Tensor& compute, const Scalar* weights,
                        const UpdatePiece& piece) {
  if (!compute.defined()) return;
  switch (compute.scalar_type()) {
    case at::kFloat:
      copy_block(weights, piece.count, compute.mutable_data_ptr<float>() + piece.offset);
      return;
    case at::kDouble:
      copy_block(weights, piece.count, compute.mutable_data_ptr<double>() + piece.offset);
      return;
    case at::kBFloat16:
      copy_block(weights, piece.count,
                 static_cast<uint16_t*>(compute.mutable_data_ptr()) + piece.offset);
      return;
    default:
      LEEWAY_UNREACHABLE("a compute copy is fp32, fp64 or bf16");
  }
}

template class PieceBuffers<float>;
template class PieceBuffers<double>;
template void write_compute_copy(const at::Tensor&, const float*, const UpdatePiece&);
template void write_compute_copy(const at::Tensor&, const double*, const UpdatePiece&);

void append_pieces(const Span& span, int64_t scratch_offset, std::vector<UpdatePiece>& pieces) {
  for (int64_t done = 0; done < span.count; done += kPieceElements) {
    pieces.push_back({.offset = span.offset + done,
                      .scratch_offset = scratch_offset + done,
                      .count = std::min(kPieceElements, span.count - done),
                      .decays = span.decays});
  }
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
