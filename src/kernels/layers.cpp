#include "kernels/layers.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/simd.h"

namespace leeway::kernels {
namespace {

// Rows per task: enough to make the cost of starting a thread negligible.
int64_t grain(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)); }

// These loops ignore strides.
template <class... Tensors>
void check_contiguous(const Tensors&... tensors) {
  LEEWAY_CHECK((tensors.is_contiguous() && ...), "a kernel's tensors are contiguous");
}

// exp for x <= 0 within 2 ulp, without a call, so that loops vectorize: 2^n times a polynomial
// on [-ln2/2, ln2/2] (Taylor to degree 7). Below -87 the result is taken as exp(-87).
inline float exp_negative(float x) {
  x = std::max(x, -87.0f);
  const float n = std::nearbyint(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}
inline double exp_negative(double x) { return std::exp(x); }

// 1 / (1 + exp(-x)) from exp(-|x|): never overflows.
template <class T>
inline T sigmoid(T x) {
  const T e = exp_negative(-std::abs(x));
  const T s = T(1) / (T(1) + e);
  return x >= T(0) ? s : e * s;
}

template <class T>
LEEWAY_SIMD void rms_forward_rows(const T* x, const T* w, T* y, T* rstd, int64_t rows, int64_t cols,
                                  T epsilon) {
  for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += x[c] * x[c];
    const T r = T(1) / std::sqrt(sum / static_cast<T>(cols) + epsilon);
    rstd[row] = r;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) y[c] = x[c] * r * w[c];
  }
}

template <class T>
LEEWAY_SIMD void rms_backward_rows(const T* dy, const T* x, const T* rstd, const T* w,
                                   const T* residual, T* dx, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < cols; ++c) sum += dy[c] * w[c] * x[c];
    const T r = rstd[row];
    const T back = sum * r * r * r / static_cast<T>(cols);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) dx[c] = dy[c] * w[c] * r - x[c] * back;
    if (residual != nullptr) {
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) dx[c] += residual[c];
      residual += cols;
    }
    dy += cols;
    x += cols;
    dx += cols;
  }
}

// The weight's gradient, one block of columns: rows in ascending order for any number of threads.
template <class T>
LEEWAY_SIMD void rms_backward_columns(const T* dy, const T* x, const T* rstd, T* dw, int64_t rows,
                                      int64_t cols, int64_t begin, int64_t end) {
  for (int64_t row = 0; row < rows; ++row) {
    const T r = rstd[row];
    const T* dy_row = dy + row * cols;
    const T* x_row = x + row * cols;
#pragma omp simd
    for (int64_t c = begin; c < end; ++c) dw[c] += dy_row[c] * x_row[c] * r;
  }
}

template <class T>
struct RotateRows {
  T* x;
  const T* cosine;
  const T* sine;
  T direction;
  int64_t cols;
  Rotation rotation;
};

template <class T>
LEEWAY_SIMD void rotate_rows(const RotateRows<T>& a, int64_t begin, int64_t end) {
  const int64_t half = a.rotation.head_size / 2;
  for (int64_t row = begin; row < end; ++row) {
    const T* cosine = a.cosine + (row % a.rotation.time) * half;
    const T* sine = a.sine + (row % a.rotation.time) * half;
    T* x = a.x + row * a.cols;
    for (int64_t head = 0; head < a.rotation.heads; ++head, x += 2 * half) {
      T* high = x + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const T s = a.direction * sine[i];
        const T low_value = x[i];
        const T high_value = high[i];
        x[i] = low_value * cosine[i] - high_value * s;
        high[i] = high_value * cosine[i] + low_value * s;
      }
    }
  }
}

template <class T>
LEEWAY_SIMD void swiglu_forward_rows(const T* x, T* y, int64_t rows, int64_t hidden) {
  for (int64_t row = 0; row < rows; ++row, x += 2 * hidden, y += hidden) {
    const T* up = x + hidden;
#pragma omp simd
    for (int64_t c = 0; c < hidden; ++c) y[c] = x[c] * sigmoid(x[c]) * up[c];
  }
}

template <class T>
LEEWAY_SIMD void swiglu_backward_rows(const T* x, const T* dy, T* dx, int64_t rows,
                                      int64_t hidden) {
  for (int64_t row = 0; row < rows; ++row, x += 2 * hidden, dx += 2 * hidden, dy += hidden) {
    const T* up = x + hidden;
    T* dup = dx + hidden;
#pragma omp simd
    for (int64_t c = 0; c < hidden; ++c) {
      const T s = sigmoid(x[c]);
      dup[c] = dy[c] * x[c] * s;
      dx[c] = dy[c] * up[c] * s * (T(1) + x[c] * (T(1) - s));
    }
  }
}

template <class T>
LEEWAY_SIMD void cross_entropy_backward_rows(T* x, const int64_t* targets, int64_t rows,
                                             int64_t cols, T scale) {
  for (int64_t row = 0; row < rows; ++row, x += cols) {
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) x[c] = scale * exp_negative(x[c]);
    x[targets[row]] -= scale;
  }
}

}  // namespace

bool takes(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

void rms_norm_forward(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                      const at::Tensor& y, const at::Tensor& rstd) {
  check_contiguous(x, weight, y, rstd);
  const int64_t cols = x.size(1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm_forward", [&] {
    at::parallel_for(0, x.size(0), grain(cols), [&](int64_t begin, int64_t end) {
      rms_forward_rows(x.const_data_ptr<scalar_t>() + begin * cols,
                       weight.const_data_ptr<scalar_t>(), y.data_ptr<scalar_t>() + begin * cols,
                       rstd.data_ptr<scalar_t>() + begin, end - begin, cols,
                       static_cast<scalar_t>(epsilon));
    });
  });
}

void rms_norm_backward(const RmsNormBackward& a) {
  check_contiguous(a.dy, a.x, a.rstd, a.weight, a.dx, a.dweight);
  const bool has_residual = a.residual.defined();
  if (has_residual) check_contiguous(a.residual);
  const int64_t rows = a.x.size(0);
  const int64_t cols = a.x.size(1);
  AT_DISPATCH_FLOATING_TYPES(a.x.scalar_type(), "rms_norm_backward", [&] {
    const auto* dy = a.dy.const_data_ptr<scalar_t>();
    const auto* x = a.x.const_data_ptr<scalar_t>();
    const auto* rstd = a.rstd.const_data_ptr<scalar_t>();
    at::parallel_for(0, rows, grain(cols), [&](int64_t begin, int64_t end) {
      rms_backward_rows(
          dy + begin * cols, x + begin * cols, rstd + begin, a.weight.const_data_ptr<scalar_t>(),
          has_residual ? a.residual.const_data_ptr<scalar_t>() + begin * cols : nullptr,
          a.dx.data_ptr<scalar_t>() + begin * cols, end - begin, cols);
    });
    at::parallel_for(0, cols, std::max<int64_t>(32, grain(rows)), [&](int64_t begin, int64_t end) {
      rms_backward_columns(dy, x, rstd, a.dweight.data_ptr<scalar_t>(), rows, cols, begin, end);
    });
  });
}

void rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
            const Rotation& rotation) {
  check_contiguous(x, cosine, sine);
  LEEWAY_CHECK(cosine.size(0) >= rotation.time, "tables cover the context");
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rotate", [&] {
    const RotateRows<scalar_t> rows{.x = x.data_ptr<scalar_t>(),
                                    .cosine = cosine.const_data_ptr<scalar_t>(),
                                    .sine = sine.const_data_ptr<scalar_t>(),
                                    .direction = static_cast<scalar_t>(rotation.direction),
                                    .cols = x.size(1),
                                    .rotation = rotation};
    at::parallel_for(0, x.size(0), grain(x.size(1)),
                     [&](int64_t begin, int64_t end) { rotate_rows(rows, begin, end); });
  });
}

void swiglu_forward(const at::Tensor& x, const at::Tensor& y) {
  check_contiguous(x, y);
  const int64_t hidden = y.size(1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swiglu_forward", [&] {
    at::parallel_for(0, x.size(0), grain(hidden), [&](int64_t begin, int64_t end) {
      swiglu_forward_rows(x.const_data_ptr<scalar_t>() + begin * 2 * hidden,
                          y.data_ptr<scalar_t>() + begin * hidden, end - begin, hidden);
    });
  });
}

void swiglu_backward(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& dx) {
  check_contiguous(x, dy, dx);
  const int64_t hidden = dy.size(1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "swiglu_backward", [&] {
    at::parallel_for(0, x.size(0), grain(hidden), [&](int64_t begin, int64_t end) {
      swiglu_backward_rows(x.const_data_ptr<scalar_t>() + begin * 2 * hidden,
                           dy.const_data_ptr<scalar_t>() + begin * hidden,
                           dx.data_ptr<scalar_t>() + begin * 2 * hidden, end - begin, hidden);
    });
  });
}

void cross_entropy_backward(const at::Tensor& log_probabilities, const at::Tensor& targets,
                            double scale) {
  LEEWAY_CHECK(log_probabilities.is_contiguous() && targets.is_contiguous(), "rows are contiguous");
  const int64_t cols = log_probabilities.size(1);
  AT_DISPATCH_FLOATING_TYPES(log_probabilities.scalar_type(), "cross_entropy_backward", [&] {
    at::parallel_for(0, log_probabilities.size(0), grain(cols), [&](int64_t begin, int64_t end) {
      cross_entropy_backward_rows(log_probabilities.data_ptr<scalar_t>() + begin * cols,
                                  targets.const_data_ptr<int64_t>() + begin, end - begin, cols,
                                  static_cast<scalar_t>(scale));
    });
  });
}

void embedding_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& g) {
  check_contiguous(ids, dy, g);
  const int64_t cols = g.size(1);
  const auto* id = ids.const_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "embedding_backward", [&] {
    const auto* from = dy.const_data_ptr<scalar_t>();
    auto* to = g.data_ptr<scalar_t>();
    // Threads split the columns, not the tokens: no two write one value, and the order is fixed.
    at::parallel_for(0, cols, std::max<int64_t>(16, grain(dy.size(0))),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = 0; n < dy.size(0); ++n) {
                         scalar_t* row = to + id[n] * cols;
                         for (int64_t c = begin; c < end; ++c) row[c] += from[n * cols + c];
                       }
                     });
  });
}

}  // namespace leeway::kernels
