// Loops that ATen would run as several passes. CPU, contiguous, fp32 or fp64. Sums have a fixed
// order that does not depend on the number of threads.
#pragma once

#include <ATen/ATen.h>

namespace leeway::kernels {

// Whether these kernels support the tensor; callers use ATen for the rest.
bool takes(const at::Tensor& x);

// y = x rstd w, rstd = 1 / sqrt(mean(x^2) + epsilon), per row.
void rms_norm_forward(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                      const at::Tensor& y, const at::Tensor& rstd);
// dx = residual + the gradient of x; dweight += the gradient of weight.
struct RmsNormBackward {
  const at::Tensor& dy;
  const at::Tensor& x;
  const at::Tensor& rstd;
  const at::Tensor& weight;
  const at::Tensor& residual;  // undefined: zeros
  const at::Tensor& dx;
  const at::Tensor& dweight;
};
void rms_norm_backward(const RmsNormBackward& a);

// Rotates the first `heads` heads of every row of x [tokens, heads_total * head_size] in place;
// direction -1 is the inverse, which is also the backward.
struct Rotation {
  int64_t time = 0;  // tokens per sequence
  int64_t heads = 0;
  int64_t head_size = 0;
  double direction = 1;
};
void rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
            const Rotation& rotation);

// x = [gate, up] per row; y = silu(gate) up.
void swiglu_forward(const at::Tensor& x, const at::Tensor& y);
void swiglu_backward(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& dx);

// In place: log-probabilities become scale (probabilities - 1 at the target), row by row.
void cross_entropy_backward(const at::Tensor& log_probabilities, const at::Tensor& targets,
                            double scale);

// g[ids[n]] += dy[n], in ascending n.
void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g);

}  // namespace leeway::kernels
