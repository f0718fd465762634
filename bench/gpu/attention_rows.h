// LibTorch's attention kernels beside each other: how long they take, whether they repeat to the
// bit, and whether flash's backward can follow cuDNN's forward.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "kernel_rows.h"

namespace leeway {

struct AttentionShape {
  int64_t batch, heads, time, size;
};

struct AttentionGradients {
  at::Tensor q, k, v;
};

class Attention {
 public:
  explicit Attention(const AttentionShape& shape)
      : shape_(shape), scale_(1 / std::sqrt(static_cast<double>(shape.size))) {
    const at::Tensor qkv = random(3 * shape.heads);
    q_ = qkv.narrow(1, 0, shape.heads);
    k_ = qkv.narrow(1, shape.heads, shape.heads);
    v_ = qkv.narrow(1, 2 * shape.heads, shape.heads);
    dy_ = random(shape.heads);
    const auto state =
        at::_scaled_dot_product_flash_attention(q_, k_, v_, 0.0, true, false, scale_);
    seed_ = std::get<6>(state);
    offset_ = std::get<7>(state);
  }

  struct Output {
    at::Tensor y, logsumexp, seed, offset;
  };
  Output flash() const {
    const auto made = at::_scaled_dot_product_flash_attention(q_, k_, v_, 0.0, true, false, scale_);
    return {std::get<0>(made), std::get<1>(made), std::get<6>(made), std::get<7>(made)};
  }
  Output cudnn() const {
    const auto made =
        at::_scaled_dot_product_cudnn_attention(q_, k_, v_, {}, true, 0.0, true, false, scale_);
    return {std::get<0>(made), std::get<1>(made), std::get<6>(made), std::get<7>(made)};
  }
  AttentionGradients flash_back(const Output& forward) const {
    const at::Tensor sums = forward.logsumexp.view({shape_.batch, shape_.heads, shape_.time});
    const auto made = at::_scaled_dot_product_flash_attention_backward(
        dy_, q_, k_, v_, forward.y, sums, {}, {}, shape_.time, shape_.time, 0.0, true, seed_,
        offset_, scale_);
    return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
  }
  AttentionGradients cudnn_back(const Output& forward) const {
    const auto made = at::_scaled_dot_product_cudnn_attention_backward(
        dy_, q_, k_, v_, forward.y, forward.logsumexp, forward.seed, forward.offset, {}, {}, {},
        shape_.time, shape_.time, 0.0, true, scale_);
    return {std::get<0>(made), std::get<1>(made), std::get<2>(made)};
  }

 private:
  at::Tensor random(int64_t heads) const {
    return at::randn({shape_.batch, shape_.time, heads, shape_.size}, of(at::kBFloat16))
        .transpose(1, 2);
  }

  AttentionShape shape_;
  double scale_;
  at::Tensor q_, k_, v_, dy_, seed_, offset_;
};

inline int64_t differing(const at::Tensor& a, const at::Tensor& b) {
  return (a != b).sum().item<int64_t>();
}
inline int64_t differing(const AttentionGradients& a, const AttentionGradients& b) {
  return differing(a.q, b.q) + differing(a.k, b.k) + differing(a.v, b.v);
}
inline double distance(const AttentionGradients& a, const AttentionGradients& b) {
  const auto far = [](const at::Tensor& x, const at::Tensor& y) {
    return ((x - y).to(at::kFloat).norm() / y.to(at::kFloat).norm()).item<double>();
  };
  return far(a.q, b.q) + far(a.k, b.k) + far(a.v, b.v);
}

using Timer = std::function<double(const std::function<void()>&)>;

inline void print_attention(const AttentionShape& s, const Timer& milliseconds) {
  const Attention attention(s);
  const Attention::Output flash = attention.flash();
  const Attention::Output cudnn = attention.cudnn();
  const AttentionGradients first = attention.cudnn_back(cudnn);
  int64_t forwards = 0;
  int64_t backwards = 0;
  for (int i = 0; i < 5; ++i) {
    const Attention::Output again = attention.cudnn();
    forwards += differing(cudnn.y, again.y) + differing(cudnn.logsumexp, again.logsumexp);
    backwards += differing(first, attention.cudnn_back(cudnn));
  }
  fmt::print(
      "{:<34} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9} {:>9} {:>9.5f}\n",
      fmt::format("{} x {} x {} x {}", s.batch, s.heads, s.time, s.size),
      milliseconds([&] { attention.flash(); }), milliseconds([&] { attention.flash_back(flash); }),
      milliseconds([&] { attention.cudnn(); }), milliseconds([&] { attention.cudnn_back(cudnn); }),
      forwards, backwards, distance(attention.flash_back(cudnn), attention.flash_back(flash)));
}

}  // namespace leeway
