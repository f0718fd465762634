// Rows of the benchmark of single kernels: what runs, and the bytes that it must move.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "averaging/lowbit.h"
#include "averaging/subset.h"
#include "kernels/activation.h"
#include "kernels/columns.h"
#include "kernels/heads.h"
#include "kernels/layer_norm.h"
#include "kernels/means.h"
#include "kernels/merges.h"
#include "kernels/wire_blocks.h"

namespace leeway {

inline const at::Device kGpu(at::kCUDA, 0);
inline constexpr int64_t kParameters = 163'000'320;

inline at::TensorOptions of(at::ScalarType type) {
  return at::TensorOptions().dtype(type).device(kGpu);
}
inline at::Tensor flat() { return at::randn({kParameters}, of(at::kFloat)); }

struct Row {
  std::string name;
  double bytes;
  std::function<void()> work;
};

// The layers between the products, 32 x 1024 tokens of GPT-2's width.
inline std::vector<Row> layer_rows() {
  constexpr int64_t kTokens = 32'768, kWidth = 768, kHeads = 12, kTime = 1'024;
  constexpr double kWide = 2.0 * kTokens * kWidth;  // bytes
  const auto rows = [](int64_t columns) {
    return at::randn({kTokens, columns}, of(at::kBFloat16));
  };
  const at::Tensor x = rows(kWidth), dy = rows(kWidth), up = rows(4 * kWidth),
                   dup = rows(4 * kWidth), gated = rows(8 * kWidth), qkv = rows(3 * kWidth);
  const at::Tensor weight = at::ones({kWidth}, of(at::kBFloat16));
  const auto zeros = [](int64_t columns) { return at::zeros({columns}, of(at::kFloat)); };
  const at::Tensor narrow = zeros(kWidth), other = zeros(kWidth), wide = zeros(4 * kWidth),
                   triple = zeros(3 * kWidth);
  const NormResult norm = norm_forward_in_one_pass(NormKind::kLayer, x, weight, weight, 1e-5);
  const HeadColumns columns = {
      .heads = kHeads, .kv_heads = kHeads, .head_size = kWidth / kHeads, .time = kTime};
  const at::Tensor angles = at::randn({kTime, kWidth / kHeads / 2}, of(at::kFloat));
  const RotaryTables tables = {angles.cos().to(at::kBFloat16), angles.sin().to(at::kBFloat16)};
  const auto heads = [] {
    return at::randn({kTokens / kTime, kTime, kHeads, kWidth / kHeads}, of(at::kBFloat16))
        .transpose(1, 2);
  };
  const HeadGradients gradients = {heads(), heads(), heads()};
  const auto activated = [=](Activation activation, const at::Tensor& in, const at::Tensor& bias) {
    with_sums([&](ColumnSums& sums) {
      return activation_backward(activation, in, dup, {bias, sums});
    });
  };
  const auto joined = [=](const RotaryTables* rotation, const at::Tensor& bias) {
    with_sums([&](ColumnSums& sums) {
      return join_heads(columns, rotation, gradients, {bias, sums});
    });
  };
  return {
      {"LayerNorm", 2 * kWide,
       [=] { norm_forward_in_one_pass(NormKind::kLayer, x, weight, weight, 1e-5); }},
      {"its backward, with the residual", 4 * kWide,
       [=] {
         with_sums([&](ColumnSums& sums) {
           return norm_backward_in_one_pass({.dy = dy,
                                             .x = x,
                                             .mean = norm.mean,
                                             .rstd = norm.rstd,
                                             .weight = weight,
                                             .residual = dy,
                                             .dweight = narrow,
                                             .dbias = other},
                                            sums);
         });
       }},
      {"GELU", 8 * kWide, [=] { activation_forward(Activation::kGelu, up); }},
      {"its backward, y again, bias", 16 * kWide, [=] { activated(Activation::kGelu, up, wide); }},
      {"SwiGLU", 12 * kWide, [=] { activation_forward(Activation::kSwiglu, gated); }},
      {"its backward, y again", 24 * kWide, [=] { activated(Activation::kSwiglu, gated, {}); }},
      {"rotation of q and k", 4 * kWide, [=] { rotate_heads(columns, tables, qkv); }},
      {"heads joined, turned back", 6 * kWide, [=] { joined(&tables, {}); }},
      {"heads joined, bias", 6 * kWide, [=] { joined(nullptr, triple); }},
      {"sums of columns", kWide, [=] { add_column_sums(dy, narrow); }}};
}

// What averaging does to all parameters, or to the subset of a round.
inline std::vector<Row> averaging_rows() {
  constexpr double kCount = kParameters;
  const Cut part({.seed = 1, .parameters = kParameters, .fraction = 0.05});
  const Subset some = part.subset(3);
  const auto chosen = static_cast<double>(some.count());
  const at::Tensor weights = flat(), ema = at::zeros_like(weights);
  const at::Tensor compute = weights.to(at::kBFloat16);
  const at::Tensor sent = gather(some, weights), mean = sent * 1.001;
  const RandomKey key = {.seed = 1, .stream = Stream::kRounding, .name = 2};
  const at::Tensor int8 = encode_blocks(WireFormat::kInt8, weights, key, kUsualThreshold);
  const at::Tensor ternary = encode_blocks(WireFormat::kTernary, weights, key, kUsualThreshold);
  const auto bytes = [](const at::Tensor& t) { return static_cast<double>(t.nbytes()); };
  return {{"gather, 5 % in runs of 64", 8 * chosen, [=] { gather(some, weights); }},
          {"merge, 5 %, ema", 26 * chosen,
           [=] {
             merge_weights({.keeps_steps = true, .ema_keep = 0.9}, {.subset = some,
                                                                    .mean = mean,
                                                                    .sent = sent,
                                                                    .weights = weights,
                                                                    .ema = ema,
                                                                    .anchor = {},
                                                                    .outer = {},
                                                                    .compute = compute});
           }},
          {"mean of two", 12 * kCount,
           [=] {
             mean_of_finite({weights, ema});
           }},
          {"int8, encode", 4 * kCount + bytes(int8),
           [=] { encode_blocks(WireFormat::kInt8, weights, key, kUsualThreshold); }},
          {"int8, decode", 4 * kCount + bytes(int8),
           [=] { decode_blocks(WireFormat::kInt8, int8, kParameters, at::kFloat); }},
          {"ternary, encode", 4 * kCount + bytes(ternary),
           [=] { encode_blocks(WireFormat::kTernary, weights, key, kUsualThreshold); }},
          {"ternary, decode", 4 * kCount + bytes(ternary),
           [=] { decode_blocks(WireFormat::kTernary, ternary, kParameters, at::kFloat); }}};
}

// A common model's round, in ternary blocks.
inline std::vector<Row> lowbit_rows() {
  constexpr double kCount = kParameters;
  const Subset all = Cut({.seed = 1, .parameters = kParameters}).subset(0);
  const at::Tensor weights = flat(), compute = weights.to(at::kBFloat16);
  std::vector<at::Tensor> four;
  for (int part = 0; part < 4; ++part) {
    four.push_back(encode_blocks(WireFormat::kTernary, flat(), {}, kUsualThreshold));
  }
  const std::vector<at::Tensor> two = {four[0], four[1]};
  const auto code_bytes = static_cast<double>(four[0].nbytes());
  const at::Tensor common = weights.clone(), flight = at::zeros_like(weights);
  const at::Tensor residual = at::zeros_like(weights);
  const at::Tensor steps = at::zeros_like(weights);
  const MergedSteps merged = {.subset = all,
                              .answer = steps,
                              .own = steps,
                              .weights = weights,
                              .common = common,
                              .flight = flight,
                              .pending = {},
                              .momentum = {},
                              .compute = compute};
  MergedSteps coded = merged;
  coded.answer = four[0];
  coded.own = four[1];
  const UnsentSteps counted = {
      .weights = weights, .common = common, .pending = {}, .flight = flight, .under_way = {}};
  UnsentSteps few = counted;
  few.flight = at::Tensor();
  few.under_way = two;
  MergedSteps uncounted = coded;
  uncounted.flight = at::Tensor();
  return {{"lowbit, contribution", 16 * kCount + code_bytes,
           [=] { contribute_in_one_pass(WireFormat::kTernary, all, counted); }},
          {"lowbit, contribution beyond two", 8 * kCount + 3 * code_bytes,
           [=] { contribute_in_one_pass(WireFormat::kTernary, all, few); }},
          {"lowbit, merge of what is not counted", 18 * kCount + 2 * code_bytes,
           [=] { merge_coded_steps(WireFormat::kTernary, {}, uncounted); }},
          {"lowbit, owner of two", 8 * kCount + 3 * code_bytes,
           [=] {
             reduce_in_one_pass(WireFormat::kTernary, all,
                                {.parts = two, .share = 1, .residual = residual});
           }},
          {"lowbit, owner of four", 8 * kCount + 5 * code_bytes,
           [=] {
             reduce_in_one_pass(WireFormat::kTernary, all,
                                {.parts = four, .share = 1, .residual = residual});
           }},
          {"lowbit, merge of exact steps", 34 * kCount, [=] { merge_steps({}, merged); }},
          {"lowbit, merge", 26 * kCount + 2 * code_bytes,
           [=] { merge_coded_steps(WireFormat::kTernary, {}, coded); }}};
}

}  // namespace leeway
