#include "model/shape.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace leeway {
namespace {

class LayoutBuilder {
 public:
  void matrix(std::string name, int64_t rows, int64_t cols,
              ParameterKind kind = ParameterKind::kMatrix) {
    add({std::move(name), kind, next_, rows, cols});
  }
  void vector(std::string name, int64_t count) {
    add({std::move(name), ParameterKind::kVector, next_, 1, count});
  }
  ParameterLayout take() { return std::move(layout_); }

 private:
  void add(Parameter parameter) {
    next_ += parameter.count();
    layout_.push_back(std::move(parameter));
  }
  ParameterLayout layout_;
  int64_t next_ = 0;
};

void add_block(LayoutBuilder& add, const ModelShape& shape, int64_t layer) {
  const std::string at = "layers." + std::to_string(layer) + ".";
  const int64_t kv_rows = shape.kv_heads * shape.head_size();
  add.vector(at + "attention_norm.weight", shape.width);
  if (shape.bias) add.vector(at + "attention_norm.bias", shape.width);
  // Adjacent, so that one product computes all three; separate, so that Muon sees three matrices.
  add.matrix(at + "attention.q.weight", shape.width, shape.width);
  add.matrix(at + "attention.k.weight", kv_rows, shape.width);
  add.matrix(at + "attention.v.weight", kv_rows, shape.width);
  if (shape.bias) add.vector(at + "attention.qkv.bias", shape.qkv_rows());
  add.matrix(at + "attention.out.weight", shape.width, shape.width);
  if (shape.bias) add.vector(at + "attention.out.bias", shape.width);
  add.vector(at + "mlp_norm.weight", shape.width);
  if (shape.bias) add.vector(at + "mlp_norm.bias", shape.width);
  if (shape.activation == Activation::kSwiglu) {
    add.matrix(at + "mlp.gate.weight", shape.hidden, shape.width);
  }
  add.matrix(at + "mlp.up.weight", shape.hidden, shape.width);
  if (shape.bias) add.vector(at + "mlp.up.bias", shape.up_rows());
  add.matrix(at + "mlp.down.weight", shape.width, shape.hidden);
  if (shape.bias) add.vector(at + "mlp.down.bias", shape.width);
}

}  // namespace

double block_cost(const ModelShape& shape) {
  const int64_t weights = (shape.qkv_rows() + shape.width) * shape.width +
                          (shape.up_rows() + shape.hidden) * shape.width;
  const int64_t attention = shape.context * shape.width;  // causal: half of 2 context width
  return static_cast<double>(weights + attention);
}

double slice_cost(const ModelShape& shape, const StageSlice& slice) {
  double cost = static_cast<double>(slice.layers) * block_cost(shape);
  // A lookup copies a row of `width` values: cheap, but not free.
  if (slice.embeds) cost += static_cast<double>(shape.width);
  if (slice.heads) cost += static_cast<double>(shape.width * shape.vocabulary);
  return cost;
}

std::vector<StageSlice> cut_into_stages(const ModelShape& shape, int64_t stages) {
  LEEWAY_CHECK(stages >= 1 && stages <= shape.layers, "the recipe check rejects other cuts");
  const auto slice = [&](int64_t first, int64_t end) {
    return StageSlice{.first_layer = first,
                      .layers = end - first,
                      .embeds = first == 0,
                      .heads = end == shape.layers};
  };
  // best[l]: the smallest possible maximum cost of the first l layers in the stages so far.
  // Another layer never makes it smaller, and a stage that begins later costs less. So the best
  // beginning of a stage is where the two meet, and that place only moves up as the stage's end
  // does: one walk per stage.
  const auto layers = static_cast<size_t>(shape.layers);
  const auto count = static_cast<size_t>(stages);
  const size_t spare = layers - count;  // each of the other stages keeps a layer for itself
  constexpr double kImpossible = std::numeric_limits<double>::infinity();
  std::vector<double> before(layers + 1, kImpossible);
  before[0] = 0;
  std::vector<std::vector<size_t>> from(
      count);  // [p][l - p - 1]: where stage p begins if it ends at l
  for (size_t p = 0; p < count; ++p) {
    std::vector<double> best(layers + 1, kImpossible);
    size_t meet = p;
    for (size_t end = p + 1; end <= p + 1 + spare; ++end) {
      const auto cost = [&](size_t first) {
        return slice_cost(shape, slice(static_cast<int64_t>(first), static_cast<int64_t>(end)));
      };
      while (meet < end && before[meet] < cost(meet)) ++meet;
      // Ties go to the earlier beginning.
      const double earlier = meet > p ? cost(meet - 1) : kImpossible;
      const double later = meet < end ? before[meet] : kImpossible;
      best[end] = std::min(earlier, later);
      from[p].push_back(earlier <= later ? meet - 1 : meet);
    }
    before = std::move(best);
  }
  std::vector<StageSlice> slices(count);
  for (size_t p = count, end = layers; p > 0; --p) {
    const size_t first = from[p - 1][end - p];
    slices[p - 1] = slice(static_cast<int64_t>(first), static_cast<int64_t>(end));
    end = first;
  }
  return slices;
}

ParameterLayout slice_layout(const ModelShape& shape, const StageSlice& slice) {
  LayoutBuilder add;
  if (slice.embeds) {
    add.matrix("embedding.weight", shape.vocabulary, shape.width, ParameterKind::kEmbedding);
    if (shape.architecture == Architecture::kGpt2) {
      add.matrix("positions.weight", shape.context, shape.width, ParameterKind::kEmbedding);
    }
  }
  for (int64_t layer = slice.first_layer; layer < slice.first_layer + slice.layers; ++layer) {
    add_block(add, shape, layer);
  }
  if (slice.heads) {
    add.vector("final_norm.weight", shape.width);
    if (shape.bias) add.vector("final_norm.bias", shape.width);
    add.matrix("head.weight", shape.vocabulary, shape.width, ParameterKind::kHead);
  }
  return add.take();
}

}  // namespace leeway
