#include "optim/newton_schulz.h"

#include <utility>

namespace leeway {
namespace {

constexpr int kSteps = 5;
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.775;
constexpr double kQuintic = 2.0315;
constexpr double kNormEpsilon = 1e-7;  // a zero matrix stays zero

}  // namespace

at::ScalarType newton_schulz_type(const at::TensorOptions& buffers) {
  const at::ScalarType type = c10::typeMetaToScalarType(buffers.dtype());
  return !buffers.device().is_cpu() && type == at::kFloat ? at::kBFloat16 : type;
}

const at::Tensor& orthogonalize(NewtonSchulzScratch& scratch) {
  auto& [x, next, gram, polynomial, norm] = scratch;
  at::linalg_vector_norm_out(norm, x, 2, at::IntArrayRef({1, 2}), true, norm.scalar_type());
  x.div_(norm.add_(kNormEpsilon));
  // A tall matrix is multiplied from the other side, not transposed: the same iteration.
  const bool tall = x.size(1) > x.size(2);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor transposed = x.transpose(1, 2);
    if (tall) {
      at::bmm_out(gram, transposed, x);
    } else {
      at::bmm_out(gram, x, transposed);
    }
    at::baddbmm_out(polynomial, gram, gram, gram, kCubic, kQuintic);
    if (tall) {
      at::baddbmm_out(next, x, x, polynomial, kLinear, 1);
    } else {
      at::baddbmm_out(next, x, polynomial, x, kLinear, 1);
    }
    std::swap(x, next);
  }
  return x;
}

}  // namespace leeway
