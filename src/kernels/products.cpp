#include "kernels/products.h"

#include <ATen/ATen.h>

#if LEEWAY_CUBLASLT
#include <ATen/cuda/CUDAContextLight.h>
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#endif

#include "kernels/cuda_glue.h"

namespace leeway {
namespace {

#if LEEWAY_CUBLASLT
void check(cublasStatus_t status, const char* what) {
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, what, " failed: ", cublasLtGetStatusString(status));
}

bool is_bf16(const at::Tensor& t, int64_t dimensions) {
  return t.is_cuda() && t.scalar_type() == at::kBFloat16 && t.dim() == dimensions &&
         t.is_contiguous() && t.numel() > 0;
}

// cuBLAS's matrices have their columns one after the other: a row-major one is its transpose.
cublasLtMatrixLayoutOpaque_t transposed(const at::Tensor& t) {
  cublasLtMatrixLayoutOpaque_t layout;
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_16BF, t.size(1), t.size(0), t.size(1)),
        "the layout of a product");
  return layout;
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value),
        "describing a product");
}

// No workspace: a product of activations has enough rows not to be split.
cublasLtMatmulPreferenceOpaque_t preference(const at::Tensor& w, const at::Tensor& x,
                                            const at::Tensor& bias, const at::Tensor& onto,
                                            const at::Tensor& y) {
  cublasLtMatmulPreferenceOpaque_t wanted;
  check(cublasLtMatmulPreferenceInit(&wanted), "a product's preferences");
  const auto address_of = [](const at::Tensor& t) {
    return t.defined() ? reinterpret_cast<uintptr_t>(t.const_data_ptr()) : 0;
  };
  const auto aligned = [&](cublasLtMatmulPreferenceAttributes_t attribute, const at::Tensor& t,
                           const at::Tensor& other = {}) {
    const uintptr_t address = address_of(t) | address_of(other);
    const uint32_t bytes = uint32_t{1} << std::min(8, std::countr_zero(address));
    check(cublasLtMatmulPreferenceSetAttribute(&wanted, attribute, &bytes, sizeof bytes),
          "a product's preferences");
  };
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, w);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, onto);
  aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y, bias);
  return wanted;
}

at::Tensor product_onto(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                        const at::Tensor& onto) {
  const CudaScope scope(x);
  at::Tensor y = at::empty_like(onto);
  cublasLtMatmulDescOpaque_t product;
  check(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (bias.defined()) {
    const void* const at_bias = scope.data<void>(bias);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at_bias);
  }
  cublasLtMatrixLayoutOpaque_t of_w = transposed(w);
  cublasLtMatrixLayoutOpaque_t of_x = transposed(x);
  cublasLtMatrixLayoutOpaque_t of_y = transposed(y);
  cublasLtMatmulPreferenceOpaque_t wanted = preference(w, x, bias, onto, y);
  const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &product, &of_w, &of_x, &of_y, &of_y, &wanted, 1, &best, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) return {};
  const float one = 1;
  check(cublasLtMatmul(handle, &product, &one, scope.data<void>(w), &of_w, scope.data<void>(x),
                       &of_x, &one, scope.data<void>(onto), &of_y, scope.data<void>(y), &of_y,
                       &best.algo, /*workspace=*/nullptr, 0, scope.stream()),
        "a product onto a residual");
  return y;
}
#endif

}  // namespace

at::Tensor product_in_one_pass([[maybe_unused]] const at::Tensor& x,
                               [[maybe_unused]] const at::Tensor& w,
                               [[maybe_unused]] const at::Tensor& bias,
                               [[maybe_unused]] const at::Tensor& onto) {
#if LEEWAY_CUBLASLT
  const bool fits =
      is_bf16(x, 2) && is_bf16(w, 2) && is_bf16(onto, 2) && (!bias.defined() || is_bf16(bias, 1));
  if (fits) return product_onto(x, w, bias, onto);
#endif
  return {};
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias,
                          const at::Tensor& onto) {
  if (!onto.defined()) return bias.defined() ? at::addmm(bias, x, w.t()) : at::mm(x, w.t());
  if (at::Tensor y = product_in_one_pass(x, w, bias, onto); y.defined()) return y;
  at::Tensor y = bias.defined() ? at::add(onto, bias) : onto.clone();
  return y.addmm_(x, w.t());
}

void accumulate_product(const at::Tensor& g, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = g;
  if (g.scalar_type() == a.scalar_type()) {
    at::addmm_out(out, g, a, b);
  } else if (g.is_cuda()) {
    at::addmm_out(out, g, a, b, g.scalar_type());
  } else {
    out.add_(at::mm(a, b));  // the CPU has no bf16 product with an fp32 result
  }
}

}  // namespace leeway
