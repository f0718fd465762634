// Each number is read once and written once; the sums for the bias are made on the way.
#include "kernels/activation_cuda.h"
#include "kernels/cuda_columns.h"

namespace leeway::cuda {
namespace {

// 1 / (1 + exp(-x)), exact enough for what is rounded to bf16.
__device__ float sigmoid(float x) { return reciprocal(1 + power_of_two(-x * kLog2E)); }

// A rule gets a number of each half of x (`up` is 0 without a second half).
struct Derivatives {
  float y;
  float gate;  // times dy
  float up;
};

struct Swiglu {
  static constexpr bool kGated = true;
  __device__ static float forward(float gate, float up) { return gate * sigmoid(gate) * up; }
  __device__ static Derivatives backward(float gate, float up, float dy) {
    const float share = sigmoid(gate);
    const float silu = gate * share;
    return {silu * up, dy * up * (share + silu * (1 - share)), dy * silu};
  }
};

// x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct Gelu {
  static constexpr bool kGated = false;
  static constexpr float kTwice = 2 * 0.7978845608028654F;
  static constexpr float kCube = 0.044715F;
  __device__ static float forward(float x, float) {
    return x * sigmoid(kTwice * (x + kCube * x * x * x));
  }
  __device__ static Derivatives backward(float x, float, float dy) {
    const float share = sigmoid(kTwice * (x + kCube * x * x * x));
    const float slope = kTwice * (1 + 3 * kCube * x * x);
    return {x * share, dy * (share + x * share * (1 - share) * slope), 0};
  }
};

struct Relu {
  static constexpr bool kGated = false;
  __device__ static float forward(float x, float) { return x <= 0 ? 0 : x; }  // NaN stays NaN
  __device__ static Derivatives backward(float x, float, float dy) {
    return {forward(x, 0), x <= 0 ? 0 : dy, 0};
  }
};

template <class Rule>
__device__ int64_t input_position(const ActivationPointers& p, int64_t row, int first) {
  return row * p.hidden * (Rule::kGated ? 2 : 1) + first;
}

template <class Rule>
__global__ void __launch_bounds__(kStripThreads* kStripRows)
    forward_kernel(const ActivationPointers p) {
  const int first = strip_thread() * kColumns;
  if (first >= p.hidden) return;
  for (int64_t row = first_row(); row < p.rows; row += row_step()) {
    const int64_t position = input_position<Rule>(p, row, first);
    const Columns gate = columns_at(p.x, position);
    Columns up = {};
    if (Rule::kGated) up = columns_at(p.x, position + p.hidden);
    Columns y;
#pragma unroll
    for (int e = 0; e < kColumns; ++e) y.at[e] = Rule::forward(gate.at[e], up.at[e]);
    put_columns(y, p.y, row * p.hidden + first);
  }
}

template <class Rule, bool kSums>
__global__ void __launch_bounds__(kStripThreads* kStripRows)
    backward_kernel(const ActivationPointers p) {
  const int first = strip_thread() * kColumns;
  const bool has_columns = first < p.hidden;
  Columns sums = {};
  for (int64_t row = first_row(); has_columns && row < p.rows; row += row_step()) {
    const int64_t position = input_position<Rule>(p, row, first);
    const Columns gate = columns_at(p.x, position);
    Columns up = {};
    if (Rule::kGated) up = columns_at(p.x, position + p.hidden);
    const Columns dy = columns_at(p.dy, row * p.hidden + first);
    Columns y;
    Columns dgate;
    Columns dup;
#pragma unroll
    for (int e = 0; e < kColumns; ++e) {
      const Derivatives d = Rule::backward(gate.at[e], up.at[e], dy.at[e]);
      y.at[e] = d.y;
      dgate.at[e] = d.gate;
      dup.at[e] = d.up;
    }
    put_columns(y, p.y, row * p.hidden + first);
    put_columns(dgate, p.dx, position);
    if (Rule::kGated) put_columns(dup, p.dx, position + p.hidden);
    if (kSums) add_to(sums, dgate);
  }
  if (!kSums) return;
  put_part(sums, has_columns ? p.parts + int64_t{blockIdx.y} * p.hidden + first : nullptr);
}

template <class Rule>
void forward(const ActivationPointers& p, cudaStream_t stream) {
  launch(forward_kernel<Rule>, strip_grid(p.hidden / kColumns, p.rows, stream), p);
}

template <class Rule>
void backward(const ActivationPointers& p, cudaStream_t stream) {
  const int threads = p.hidden / kColumns;
  const auto kernel =
      p.parts == nullptr ? backward_kernel<Rule, false> : backward_kernel<Rule, true>;
  launch(kernel, strip_grid(threads, p.rows, stream), p);
}

}  // namespace

void activation_forward(Activation activation, const ActivationPointers& p, cudaStream_t stream) {
  switch (activation) {
    case Activation::kSwiglu:
      return forward<Swiglu>(p, stream);
    case Activation::kGelu:
      return forward<Gelu>(p, stream);
    case Activation::kRelu:
      return forward<Relu>(p, stream);
  }
}

void activation_backward(Activation activation, const ActivationPointers& p, cudaStream_t stream) {
  switch (activation) {
    case Activation::kSwiglu:
      return backward<Swiglu>(p, stream);
    case Activation::kGelu:
      return backward<Gelu>(p, stream);
    case Activation::kRelu:
      return backward<Relu>(p, stream);
  }
}

}  // namespace leeway::cuda
