#include <gtest/gtest.h>

#include <cmath>

#include "layer_check.h"
#include "model/layers.h"

namespace leeway {
namespace {

// The angle of a coordinate pair at a position, written out.
at::Tensor turn(const at::Tensor& x) {  // [batch, heads, time, size]
  const int64_t time = x.size(2);
  const int64_t half = x.size(3) / 2;
  const at::Tensor angles = at::empty({time, half}, at::kDouble);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      angles[t][i] = static_cast<double>(t) *
                     std::pow(10000.0, -static_cast<double>(2 * i) / static_cast<double>(2 * half));
    }
  }
  const at::Tensor low = x.narrow(3, 0, half);
  const at::Tensor high = x.narrow(3, half, half);
  return at::cat(
      {low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()}, 3);
}

at::Tensor formula_of(const ModelShape& shape, int64_t time, bool rotates, const at::Tensor& qkv) {
  const int64_t size = shape.head_size();
  const int64_t group = shape.heads / shape.kv_heads;
  const at::Tensor heads =
      qkv.view({-1, time, shape.heads + 2 * shape.kv_heads, size}).transpose(1, 2);
  at::Tensor q = heads.slice(1, 0, shape.heads);
  at::Tensor k = heads.slice(1, shape.heads, shape.heads + shape.kv_heads);
  const at::Tensor v = heads.slice(1, shape.heads + shape.kv_heads).repeat_interleave(group, 1);
  if (rotates) {
    q = turn(q);
    k = turn(k);
  }
  k = k.repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(size));
  const at::Tensor future = at::ones({time, time}, at::kBool).triu(1);
  const at::Tensor share = at::softmax(scores.masked_fill(future, -INFINITY), 3);
  return at::matmul(share, v).transpose(1, 2).reshape({-1, shape.width});
}

LayerCase attention_case(const ModelShape& shape, const BatchSize& size, bool rotates) {
  LayerCase layer;
  layer.what = "attention " + std::to_string(size.batch) + "x" + std::to_string(size.time) + " " +
               std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " heads of " +
               std::to_string(shape.head_size()) + (rotates ? " rotated" : "");
  layer.inputs = {random_tensor("qkv", {size.tokens(), shape.qkv_rows()})};
  layer.formula = [=](const Tensors& t) { return formula_of(shape, size.time, rotates, t[0]); };
  const auto run = [=](const at::Tensor& qkv, AttentionSaved& saved, const RotaryTables* tables) {
    return attention_forward(shape, tables, size.time, qkv.clone(), saved);
  };
  layer.forward = [=](const Tensors& t) {
    const RotaryTables tables = make_rotary_tables(shape, t[0].options());
    AttentionSaved saved;
    return run(t[0], saved, rotates ? &tables : nullptr);
  };
  layer.backward = [=](const Tensors& t, const at::Tensor& dy) -> Tensors {
    const RotaryTables tables = make_rotary_tables(shape, t[0].options());
    AttentionSaved saved;
    run(t[0], saved, rotates ? &tables : nullptr);
    return {with_sums([&](ColumnSums& sums) {
      return attention_backward(shape, rotates ? &tables : nullptr, size.time, saved, dy,
                                {{}, sums});
    })};
  };
  return layer;
}

ModelShape with_heads(int64_t heads, int64_t kv_heads, int64_t head_size) {
  ModelShape shape = small_llama();
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.width = heads * head_size;
  return shape;
}

TEST(Attention, EqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    check_layer(attention_case(with_heads(3, 3, 5), size, false));
    check_layer(attention_case(with_heads(1, 1, 12), size, false));
  }
}

TEST(Attention, WithRotationEqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    check_layer(attention_case(with_heads(3, 3, 6), size, true));
    check_layer(attention_case(with_heads(2, 2, 2), size, true));
  }
}

TEST(Attention, WithGroupedQueriesEqualsItsFormula) {
  for (const BatchSize& size : kBatchSizes) {
    check_layer(attention_case(with_heads(6, 3, 6), size, true));
    check_layer(attention_case(with_heads(4, 1, 10), size, true));
  }
}

TEST(Attention, SeesNoFuture) {
  const ModelShape shape = with_heads(4, 2, 6);
  const RotaryTables tables = make_rotary_tables(shape, at::TensorOptions(at::kFloat));
  const at::Tensor qkv = random_tensor("qkv", {9, shape.qkv_rows()}, at::kFloat);
  AttentionSaved saved;
  const at::Tensor before = attention_forward(shape, &tables, 9, qkv.clone(), saved);
  at::Tensor changed = qkv.clone();
  changed[6].fill_(5);
  const at::Tensor after = attention_forward(shape, &tables, 9, changed, saved);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 6), after.narrow(0, 0, 6)));
  EXPECT_FALSE(at::equal(before[6], after[6]));
  EXPECT_FALSE(at::equal(before[8], after[8]));
}

TEST(Attention, SequencesOfAMicrobatchDoNotMix) {
  const ModelShape shape = with_heads(4, 2, 6);
  const RotaryTables tables = make_rotary_tables(shape, at::TensorOptions(at::kDouble));
  const at::Tensor qkv = random_tensor("qkv", {10, shape.qkv_rows()});
  AttentionSaved saved;
  const at::Tensor both = attention_forward(shape, &tables, 5, qkv.clone(), saved);
  const at::Tensor second =
      attention_forward(shape, &tables, 5, qkv.narrow(0, 5, 5).clone(), saved);
  EXPECT_LE(relative_distance(both.narrow(0, 5, 5), second), 1e-14);
}

}  // namespace
}  // namespace leeway
