// The attention kernels of a device against their formula in fp64, whichever of them is chosen.
#include <ATen/ATen.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "../support/test_device.h"
#include "kernels/attention.h"

namespace leeway {
namespace {

struct Shape {
  int64_t heads, kv_heads, time, size;
};

class AttentionOnDevice : public OnDevice {
 protected:
  static bool is_cpu() { return test_device() == "cpu"; }
  static at::Tensor there(const at::Tensor& t) {
    return t.to(at::Device(test_device()), is_cpu() ? at::kFloat : at::kBFloat16);
  }
};

at::Tensor wide(const at::Tensor& t) { return t.detach().cpu().to(at::kDouble); }

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return ((wide(found) - expected).norm() / expected.norm()).item<double>();
}

at::Tensor formula(const AttentionHeads& h, double scale) {
  const int64_t time = h.q.size(2);
  const at::Tensor later = at::ones({time, time}, at::kBool).triu(1);
  const at::Tensor scores = at::matmul(h.q, h.k.transpose(2, 3)).mul(scale);
  return at::matmul(at::softmax(scores.masked_fill(later, -INFINITY), 3), h.v);
}

// Views of one product, as the model has them; grouped keys and values are repeated, so contiguous.
AttentionHeads heads_of(const Shape& s, const at::Tensor& qkv) {
  const at::Tensor by_head = qkv.transpose(1, 2);
  const int64_t group = s.heads / s.kv_heads;
  const auto part = [&](int64_t first, int64_t count) { return by_head.narrow(1, first, count); };
  const auto repeated = [&](const at::Tensor& t) {
    return group == 1 ? t : t.repeat_interleave(group, 1);
  };
  return {part(0, s.heads), repeated(part(s.heads, s.kv_heads)),
          repeated(part(s.heads + s.kv_heads, s.kv_heads))};
}

TEST_F(AttentionOnDevice, IsItsFormula) {
  const double allowed = is_cpu() ? 1e-5 : 0.02;
  for (const Shape& s : std::vector<Shape>{{4, 4, 128, 64},
                                           {4, 2, 256, 64},
                                           {2, 2, 384, 128},
                                           {4, 1, 100, 64},
                                           {2, 2, 128, 56},
                                           {3, 3, 128, 32}}) {
    SCOPED_TRACE(testing::Message() << s.heads << " heads, " << s.kv_heads << " of keys, " << s.time
                                    << " x " << s.size);
    const double scale = 1 / std::sqrt(static_cast<double>(s.size));
    const AttentionHeads h =
        heads_of(s, there(at::randn({2, s.time, s.heads + 2 * s.kv_heads, s.size})));
    const at::Tensor dy = there(at::randn({2, s.time, s.heads, s.size})).transpose(1, 2);
    const CausalAttention made = causal_attention(h, scale);
    const AttentionHeads d = causal_attention_backward(h, scale, made, dy);

    AttentionHeads exact = {wide(h.q), wide(h.k), wide(h.v)};
    for (at::Tensor* const t : {&exact.q, &exact.k, &exact.v}) t->requires_grad_(true);
    const at::Tensor expected = formula(exact, scale);
    expected.backward(wide(dy));
    EXPECT_LT(distance(made.out, expected.detach()), allowed);
    EXPECT_LT(distance(d.q, exact.q.grad()), allowed);
    EXPECT_LT(distance(d.k, exact.k.grad()), allowed);
    EXPECT_LT(distance(d.v, exact.v.grad()), allowed);
  }
}

}  // namespace
}  // namespace leeway
