// The layers' own kernels of a GPU against their formulas in fp64, over odd shapes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "gpu.h"
#include "kernels/activation.h"
#include "kernels/columns.h"
#include "kernels/embedding.h"
#include "kernels/heads.h"

namespace leeway {
namespace {

using GpuActivation = GpuTest;
using GpuColumns = GpuTest;
using GpuEmbedding = GpuTest;
using GpuHeads = GpuTest;

at::Tensor half(const at::Tensor& tensor) { return tensor.to(at::kBFloat16); }
at::Tensor wide(const at::Tensor& tensor) { return tensor.cpu().to(at::kDouble); }

// What rounding to bf16 once allows, and a little for an exponential of one instruction.
void expect_rounded(const at::Tensor& found, const at::Tensor& expected, const char* what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const at::Tensor error = (wide(found) - expected).abs();
  const at::Tensor allowed = expected.abs() * 0.0042 + 1e-5;
  EXPECT_TRUE((error <= allowed).all().item<bool>())
      << what << ": off by " << error.max().item<double>();
}

void expect_sums(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor error = (wide(found) - expected).abs();
  EXPECT_LT(error.max().item<double>(), 1e-4 * (1 + expected.abs().max().item<double>()));
}

struct Activated {
  at::Tensor y, dx;
};

Activated formula_of(Activation activation, const at::Tensor& x, const at::Tensor& dy) {
  const int64_t hidden = dy.size(1);
  switch (activation) {
    case Activation::kRelu:
      return {at::relu(x), at::where(x > 0, dy, at::zeros_like(dy))};
    case Activation::kGelu:
      return {at::gelu(x, "tanh"), at::gelu_backward(dy, x, "tanh")};
    case Activation::kSwiglu:
      break;
  }
  const at::Tensor gate = x.narrow(1, 0, hidden);
  const at::Tensor up = x.narrow(1, hidden, hidden);
  return {at::silu(gate) * up, at::cat({at::silu_backward(dy * up, gate), at::silu(gate) * dy}, 1)};
}

// Fewer and more than all blocks take at once.
std::vector<int64_t> row_counts() { return {1, 7, 64, 20 * test_gpu().blocks_most + 3}; }

ActivationGradient gradient_of(Activation activation, const at::Tensor& x, const at::Tensor& dy,
                               const at::Tensor& dbias = {}) {
  return with_sums([&](ColumnSums& sums) {
    return activation_backward(activation, x, dy, {dbias, sums});
  });
}

void check_activation(Activation activation, int64_t rows, int64_t hidden, bool bias) {
  SCOPED_TRACE(testing::Message() << "activation " << static_cast<int>(activation) << ", " << rows
                                  << " x " << hidden);
  const int64_t columns = activation == Activation::kSwiglu ? 2 * hidden : hidden;
  const at::Tensor x = half(at::randn({rows, columns}) * 3);
  const at::Tensor dy = half(at::randn({rows, hidden}));
  const Activated expected = formula_of(activation, wide(x), wide(dy));
  ASSERT_TRUE(activation_repeats(activation, to_gpu(x)));
  expect_rounded(activation_forward(activation, to_gpu(x)), expected.y, "y");

  const auto backward = [&](const at::Tensor& dbias) {
    return gradient_of(activation, to_gpu(x), to_gpu(dy), dbias);
  };
  const at::Tensor dbias = bias ? to_gpu(at::ones({columns})) : at::Tensor();
  const ActivationGradient made = backward(dbias);
  expect_rounded(made.dx, expected.dx, "dx");
  EXPECT_TRUE(same_bits(made.y, activation_forward(activation, to_gpu(x)))) << "y, again";
  if (!bias) return;
  // SwiGLU's are those of what was rounded.
  const bool rounded = activation == Activation::kSwiglu;
  expect_sums(dbias, (rounded ? wide(made.dx) : expected.dx).sum(0) + 1);
  const at::Tensor again = to_gpu(at::ones({columns}));
  backward(again);
  EXPECT_TRUE(same_bits(dbias, again)) << "the order of sums is fixed";
}

TEST_F(GpuActivation, EqualsItsFormula) {
  for (const auto activation : {Activation::kSwiglu, Activation::kGelu, Activation::kRelu}) {
    for (const int64_t rows : row_counts()) {
      for (const int64_t hidden : {8, 200, 264, 1'032}) {
        check_activation(activation, rows, hidden, /*bias=*/true);
      }
    }
    check_activation(activation, 5, 64, /*bias=*/false);
  }
}

TEST_F(GpuActivation, ReachesTheEndsOfItsRange) {
  const at::Tensor x = half(at::linspace(-100, 100, 4'000).view({500, 8}));
  const at::Tensor ones = half(at::ones({500, 8}));
  const Activated gelu = formula_of(Activation::kGelu, wide(x), wide(ones));
  const ActivationGradient found = gradient_of(Activation::kGelu, to_gpu(x), to_gpu(ones));
  expect_rounded(found.y, gelu.y, "gelu");
  expect_rounded(found.dx, gelu.dx, "gelu's slope");
  const at::Tensor gated = at::cat({x, ones}, 1);
  const Activated swiglu = formula_of(Activation::kSwiglu, wide(gated), wide(ones));
  expect_rounded(activation_forward(Activation::kSwiglu, to_gpu(gated)), swiglu.y, "swiglu");
}

TEST_F(GpuActivation, KeepsNan) {
  const at::Tensor x = half(at::ones({3, 16}));
  x[1][5] = std::nan("");
  for (const auto activation : {Activation::kSwiglu, Activation::kGelu, Activation::kRelu}) {
    const at::Tensor y = activation_forward(activation, to_gpu(x)).cpu();
    EXPECT_EQ(at::isnan(y).sum().item<int64_t>(), 1);
    EXPECT_TRUE(std::isnan(y[1][5].item<float>()));
  }
}

// Not on a multiple of 16 bytes: ATen's, with the same results.
TEST_F(GpuColumns, ThatAreNotAlignedAreAten) {
  const at::Tensor numbers = half(at::randn({6, 16}));
  const at::Tensor odd = on_gpu(numbers.flatten(), 1).view({6, 16});
  for (const auto activation : {Activation::kSwiglu, Activation::kGelu, Activation::kRelu}) {
    EXPECT_FALSE(activation_repeats(activation, odd));
    const at::Tensor y = activation_forward(activation, to_gpu(numbers));
    const at::Tensor other = activation_forward(activation, odd);
    EXPECT_LT((wide(y) - wide(other)).abs().max().item<double>(), 0.04);
  }
  const at::Tensor sums = on_gpu(at::zeros({16}), 1);
  add_column_sums(odd, sums);
  expect_sums(sums, wide(numbers).sum(0));
}

TEST_F(GpuColumns, AreSummedInAFixedOrder) {
  for (const int64_t rows : row_counts()) {
    for (const int64_t columns : {8, 248, 256, 264, 3'072}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const at::Tensor numbers = half(at::randn({rows, columns}));
      const at::Tensor sums = to_gpu(at::ones({columns}));
      const at::Tensor again = to_gpu(at::ones({columns}));
      add_column_sums(to_gpu(numbers), sums);
      add_column_sums(to_gpu(numbers), again);
      const at::Tensor expected = wide(numbers).sum(0) + 1;
      EXPECT_LT((wide(sums) - expected).abs().max().item<double>(), 1e-3);
      EXPECT_TRUE(same_bits(sums, again));
    }
  }
}

// Those of a layer are finished together, more than fit into one launch.
TEST_F(GpuColumns, AreTheSameBitsTogether) {
  std::vector<at::Tensor> alone;
  std::vector<at::Tensor> together;
  ColumnSums sums;
  for (const int64_t columns : {264, 264, 264, 264, 264, 8, 8, 3'072, 264, 264, 16}) {
    const at::Tensor numbers = to_gpu(half(at::randn({300, columns})));
    for (auto* const list : {&alone, &together}) list->push_back(to_gpu(at::ones({columns})));
    add_column_sums(numbers, alone.back());
    sums.add_rows(numbers, together.back());
  }
  const at::Tensor parts = to_gpu(at::randn({700, 2, 40}));
  const at::Tensor wanted = to_gpu(at::ones({40}));
  sums.add_parts(parts, {{}, wanted});
  const at::Tensor both[] = {to_gpu(at::ones({40})), to_gpu(at::ones({40}))};
  sums.add_parts(parts, {both[0], both[1]});
  sums.finish();
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_bits(alone[i], together[i])) << i;
  EXPECT_TRUE(same_bits(wanted, both[1]));
  const at::Tensor expected = wide(parts).sum(0) + 1;
  for (const int64_t i : {0, 1}) {
    EXPECT_LT((wide(both[i]) - expected[i]).abs().max().item<double>(), 1e-3);
  }
}

void check_embedding(int64_t tokens, int64_t columns, int64_t vocabulary) {
  SCOPED_TRACE(testing::Message() << tokens << " x " << columns << ", " << vocabulary << " words");
  // The square of a random number: small ids are frequent, as words are.
  const at::Tensor ids =
      (at::rand({tokens}).square() * static_cast<double>(vocabulary)).to(at::kLong);
  const at::Tensor dy = half(at::randn({tokens, columns}));
  const at::Tensor expected =
      at::ones({vocabulary, columns}, at::kDouble).index_add(0, ids, wide(dy));
  const auto run = [&] {
    const at::Tensor g = to_gpu(at::ones({vocabulary, columns}));
    embedding_backward(to_gpu(ids), to_gpu(dy), g);
    return g;
  };
  const at::Tensor found = run();
  EXPECT_LT((wide(found) - expected).abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(same_bits(found, run()));
}

// Runs within a chunk, across two and across many; chunks that end with a run, and short ones.
TEST_F(GpuEmbedding, GradientsAreThoseOfTheIds) {
  for (const int64_t vocabulary : {1, 2, 7, 300, 5'000}) {
    for (const int64_t tokens : {1, 31, 32, 33, 64, 1'000}) check_embedding(tokens, 40, vocabulary);
  }
  check_embedding(2'048, 768, 257);
}

struct HeadsCase {
  int64_t batch, time, heads, kv_heads, size;
  HeadColumns columns() const {
    return {.heads = heads, .kv_heads = kv_heads, .head_size = size, .time = time};
  }
  int64_t row() const { return (heads + 2 * kv_heads) * size; }
};

const HeadsCase kHeads[] = {
    {1, 1, 1, 1, 16}, {2, 7, 3, 1, 32}, {3, 5, 2, 2, 64}, {1, 9, 5, 5, 128}, {2, 1'030, 4, 2, 64}};

RotaryTables random_tables(const HeadsCase& c) {
  const at::Tensor angles = at::randn({c.time + 3, c.size / 2});
  return {half(angles.cos()), half(angles.sin())};
}

// Rows [batch time, heads size], turned by the tables of their position.
at::Tensor turned(const HeadsCase& c, const RotaryTables& tables, const at::Tensor& qkv,
                  double direction) {
  at::Tensor result = wide(qkv).clone();
  const at::Tensor x = result.view({c.batch, c.time, c.heads + 2 * c.kv_heads, 2, c.size / 2});
  const int64_t rotated = c.heads + c.kv_heads;
  const at::Tensor low = x.narrow(2, 0, rotated).select(3, 0).clone();
  const at::Tensor high = x.narrow(2, 0, rotated).select(3, 1).clone();
  const auto table = [&](const at::Tensor& t) {
    return wide(t).narrow(0, 0, c.time).view({1, c.time, 1, c.size / 2});
  };
  const at::Tensor cosine = table(tables.cosine);
  const at::Tensor sine = table(tables.sine) * direction;
  x.narrow(2, 0, rotated).select(3, 0).copy_(low * cosine - high * sine);
  x.narrow(2, 0, rotated).select(3, 1).copy_(high * cosine + low * sine);
  return result;
}

RotaryTables moved_tables(const RotaryTables& tables) {
  return {to_gpu(tables.cosine), to_gpu(tables.sine)};
}

TEST_F(GpuHeads, AreTurnedInPlace) {
  for (const HeadsCase& c : kHeads) {
    SCOPED_TRACE(testing::Message() << c.batch << " x " << c.time << ", heads of " << c.size);
    const at::Tensor qkv = half(at::randn({c.batch * c.time, c.row()}));
    const RotaryTables tables = random_tables(c);
    const at::Tensor found = to_gpu(qkv);
    rotate_heads(c.columns(), moved_tables(tables), found);
    const at::Tensor expected = turned(c, tables, qkv, 1);
    const at::Tensor error = (wide(found) - expected).abs();
    EXPECT_LT(error.max().item<double>(), 0.02);  // half a bf16 step at 4
    const int64_t v = (c.heads + c.kv_heads) * c.size;
    EXPECT_TRUE(same_bits(found.narrow(1, v, c.kv_heads * c.size).contiguous(),
                          qkv.narrow(1, v, c.kv_heads * c.size).contiguous()));
  }
}

// Heads as attention's backward returns them: [batch, heads, time, size], laid out by time first or
// by head first.
at::Tensor laid_out(const HeadsCase& c, const at::Tensor& rows, int64_t heads, bool time_first) {
  const at::Tensor view = to_gpu(rows).view({c.batch, c.time, heads, c.size}).transpose(1, 2);
  return time_first ? view : view.contiguous();
}

void check_join(const HeadsCase& c, bool rotates, bool time_first) {
  SCOPED_TRACE(testing::Message() << c.batch << " x " << c.time << ", heads of " << c.size
                                  << (rotates ? ", turned" : ""));
  const at::Tensor dqkv = half(at::randn({c.batch * c.time, c.row()}));
  const RotaryTables tables = random_tables(c);
  const RotaryTables moved = moved_tables(tables);
  const std::vector<at::Tensor> parts =
      dqkv.split_with_sizes({c.heads * c.size, c.kv_heads * c.size, c.kv_heads * c.size}, 1);
  const auto part = [&](size_t i, int64_t heads) {
    return laid_out(c, parts[i].contiguous(), heads, time_first);
  };
  const HeadGradients gradients = {part(0, c.heads), part(1, c.kv_heads), part(2, c.kv_heads)};
  const at::Tensor dbias = to_gpu(at::ones({c.row()}));
  const auto joined = [&](const at::Tensor& onto) {
    return with_sums([&](ColumnSums& sums) {
      return join_heads(c.columns(), rotates ? &moved : nullptr, gradients, {onto, sums});
    });
  };
  const at::Tensor found = joined(dbias);
  const at::Tensor expected = rotates ? turned(c, tables, dqkv, -1) : wide(dqkv);
  EXPECT_LT((wide(found) - expected).abs().max().item<double>(), rotates ? 0.02 : 1e-12);
  expect_sums(dbias, expected.sum(0) + 1);
  EXPECT_TRUE(same_bits(found, joined({})));
}

TEST_F(GpuHeads, AreJoinedWithTheirSums) {
  for (const HeadsCase& c : kHeads) {
    for (const bool rotates : {false, true}) {
      for (const bool time_first : {false, true}) check_join(c, rotates, time_first);
    }
  }
}

// Sizes without such a form: half a head is no whole vector.
TEST_F(GpuHeads, OfOddSizesAreAten) {
  const HeadsCase c = {2, 3, 2, 1, 24};
  const at::Tensor qkv = half(at::randn({c.batch * c.time, c.row()}));
  const RotaryTables tables = random_tables(c);
  const at::Tensor found = to_gpu(qkv);
  rotate_heads(c.columns(), moved_tables(tables), found);
  EXPECT_LT((wide(found) - turned(c, tables, qkv, 1)).abs().max().item<double>(), 0.05);
  check_join(c, /*rotates=*/false, /*time_first=*/true);
}

}  // namespace
}  // namespace leeway
