#include "kernels/update.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda_glue.h"
#include "kernels/gate_fields.h"
#if LEEWAY_CUDA
#include "kernels/update_cuda.h"
#endif

namespace leeway {
namespace {

// One piece of the flat buffers. A preview works on a copy of it on the stack, so that the same
// loops can write to it; so do moments in bf16.
template <class Scalar>
class PieceBuffers {
 public:
  PieceBuffers(const UpdatePiece& piece, const PassTensors& tensors)
      : piece_(piece), tensors_(tensors) {
    block_ = {.count = piece.count,
              .weights = place(tensors.weights, weights_.data()),
              .gradients = tensors.gradients.const_data_ptr<Scalar>() + piece.offset,
              .momentum = place(tensors.momentum, momentum_.data()),
              .variance = place(tensors.variance, variance_.data()),
              .direction = nullptr};
  }
  PieceBuffers(const PieceBuffers&) = delete;
  PieceBuffers& operator=(const PieceBuffers&) = delete;
  const ElementBlock<Scalar>& block() const { return block_; }

  // After the loops: moments in bf16 are written.
  void keep_moments() const {
    keep(tensors_.momentum, Moment::kMomentum, momentum_.data());
    keep(tensors_.variance, Moment::kVariance, variance_.data());
  }

 private:
  Scalar* place(const at::Tensor& flat, Scalar* copy) const {
    if (!flat.defined()) return nullptr;
    if (flat.scalar_type() == at::kBFloat16) {
      if constexpr (std::is_same_v<Scalar, float>) {
        widen_block(halves(flat), piece_.count, copy);
      }
      return copy;
    }
    if (!tensors_.preview) return flat.mutable_data_ptr<Scalar>() + piece_.offset;
    std::copy_n(flat.const_data_ptr<Scalar>() + piece_.offset, piece_.count, copy);
    return copy;
  }
  void keep(const at::Tensor& flat, Moment moment, const Scalar* copy) const {
    if (tensors_.preview || !flat.defined() || flat.scalar_type() != at::kBFloat16) return;
    if constexpr (std::is_same_v<Scalar, float>) {
      round_block(copy, piece_.count, tensors_.rounding, piece_.offset, moment, halves(flat));
    }
  }
  uint16_t* halves(const at::Tensor& flat) const {
    return static_cast<uint16_t*>(flat.mutable_data_ptr()) + piece_.offset;
  }

  const UpdatePiece& piece_;
  const PassTensors& tensors_;
  ElementBlock<Scalar> block_;
  std::array<Scalar, kPieceElements> weights_;  // left uninitialized where they are not needed
  std::array<Scalar, kPieceElements> momentum_;
  std::array<Scalar, kPieceElements> variance_;
};

// Writes a piece's new weights to the compute copy, if there is one.
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

template <class Function>
void for_each_piece(const UpdatePieces& pieces, const Function& function) {
  const std::vector<UpdatePiece>& list = pieces.list();
  at::parallel_for(0, static_cast<int64_t>(list.size()), kPiecesPerThread,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) function(list[static_cast<size_t>(i)]);
                   });
}

// Calls a function with a number of the weights' type.
template <class Function>
void with_scalar(const PassTensors& tensors, const Function& function) {
  tensors.weights.scalar_type() == at::kDouble ? function(double{}) : function(float{});
}

const double* gate_of(const PassTensors& tensors) {
  return tensors.gate.defined() ? tensors.gate.const_data_ptr<double>() : nullptr;
}

// What the gate says is in the constants: the same in every piece.
StepConstants scaled(StepConstants constants, const PassTensors& tensors) {
  if (const double* const gate = gate_of(tensors)) constants.gradient_scale *= gate[kGateScale];
  return constants;
}

// The host looks before it begins an update on the CPU.
void check_open(const PassTensors& tensors) {
  const double* const gate = gate_of(tensors);
  LEEWAY_CHECK(gate == nullptr || tensors.preview || gate[kGateOpen] != 0,
               "on the CPU an update is known to be made");
}

#if LEEWAY_CUDA
cuda::PassPointers pointers(const UpdatePieces& pieces, const PassTensors& tensors) {
  LEEWAY_CHECK(tensors.weights.scalar_type() == at::kFloat, "on a GPU weights are fp32");
  const auto start = [](const at::Tensor& flat) {
    return flat.defined() ? flat.mutable_data_ptr() : nullptr;
  };
  cuda::PassPointers p = {.pieces = pieces.on_device().const_data_ptr<int64_t>(),
                          .piece_count = static_cast<int64_t>(pieces.list().size()),
                          .weights = static_cast<float*>(start(tensors.weights)),
                          .gradients = static_cast<const float*>(start(tensors.gradients)),
                          .momentum = start(tensors.momentum),
                          .variance = start(tensors.variance),
                          .half_moments = tensors.momentum.scalar_type() == at::kBFloat16,
                          .rounding = tensors.rounding,
                          .preview = tensors.preview,
                          .gate = gate_of(tensors)};
  if (!tensors.compute.defined()) return p;
  p.compute = tensors.compute.mutable_data_ptr();
  const bool half = tensors.compute.scalar_type() == at::kBFloat16;
  LEEWAY_CHECK(half || tensors.compute.scalar_type() == at::kFloat, "bf16 or fp32");
  p.copy = half ? cuda::CopyType::kBf16 : cuda::CopyType::kFloat;
  return p;
}
#endif

}  // namespace

UpdatePieces::UpdatePieces(const std::vector<Span>& spans, const at::Device& device) {
  int64_t scratch = 0;
  for (const Span& span : spans) {
    for (int64_t done = 0; done < span.count; done += kPieceElements) {
      list_.push_back({.offset = span.offset + done,
                       .scratch_offset = scratch + done,
                       .count = std::min(kPieceElements, span.count - done),
                       .decays = span.decays ? 1 : 0});
    }
    scratch += span.count;
  }
  if (device.is_cpu() || list_.empty()) return;
  static_assert(sizeof(UpdatePiece) == 4 * sizeof(int64_t), "four numbers, as the kernels read it");
  const auto count = static_cast<int64_t>(list_.size());
  on_device_ = at::from_blob(list_.data(), {count, 4}, at::kLong).to(device);
}

void element_pass(const UpdatePieces& pieces, const StepConstants& constants,
                  const PassTensors& tensors) {
  if (pieces.empty()) return;
  if (is_on_gpu(tensors.weights)) {
    LEEWAY_CUDA_TWIN(cuda::element_pass(constants, pointers(pieces, tensors),
                                        CudaScope(tensors.weights).stream()));
    return;
  }
  check_open(tensors);
  const StepConstants decaying = scaled(constants, tensors);
  StepConstants without_decay = decaying;
  without_decay.weight_keep = 1;
  const bool adam = tensors.variance.defined();
  with_scalar(tensors, [&]<class Scalar>(Scalar) {
    for_each_piece(pieces, [&](const UpdatePiece& piece) {
      PieceBuffers<Scalar> buffers(piece, tensors);
      const StepConstants& own = piece.decays != 0 ? decaying : without_decay;
      adam ? adam_block(own, buffers.block()) : momentum_block(own, buffers.block());
      buffers.keep_moments();
      write_compute_copy(tensors.compute, buffers.block().weights, piece);
    });
  });
}

void direction_pass(const UpdatePieces& pieces, const StepConstants& constants,
                    const PassTensors& tensors, const at::Tensor& directions) {
  if (is_on_gpu(tensors.weights)) {
    LEEWAY_CUDA_TWIN(cuda::direction_pass(constants, pointers(pieces, tensors),
                                          directions.mutable_data_ptr(),
                                          CudaScope(tensors.weights).stream()));
    return;
  }
  check_open(tensors);
  const StepConstants own = scaled(constants, tensors);
  PassTensors used = tensors;
  used.variance.reset();
  with_scalar(tensors, [&]<class Scalar>(Scalar) {
    auto* const target = directions.mutable_data_ptr<Scalar>();
    for_each_piece(pieces, [&](const UpdatePiece& piece) {
      PieceBuffers<Scalar> buffers(piece, used);
      ElementBlock<Scalar> block = buffers.block();
      block.direction = target + piece.scratch_offset;
      direction_block(own, block);
      buffers.keep_moments();
    });
  });
}

void apply_pass(const UpdatePieces& pieces, double weight_keep, double step,
                const PassTensors& tensors, const at::Tensor& directions) {
  if (is_on_gpu(tensors.weights)) {
    LEEWAY_CUDA_TWIN(cuda::apply_pass(weight_keep, step, pointers(pieces, tensors),
                                      directions.const_data_ptr(),
                                      CudaScope(tensors.weights).stream()));
    return;
  }
  PassTensors used = tensors;
  used.momentum.reset();
  used.variance.reset();
  with_scalar(tensors, [&]<class Scalar>(Scalar) {
    auto* const steps = directions.mutable_data_ptr<Scalar>();
    for_each_piece(pieces, [&](const UpdatePiece& piece) {
      PieceBuffers<Scalar> buffers(piece, used);
      ElementBlock<Scalar> block = buffers.block();
      block.direction = steps + piece.scratch_offset;
      apply_block(weight_keep, step, block);
      write_compute_copy(tensors.compute, block.weights, piece);
    });
  });
}

}  // namespace leeway
