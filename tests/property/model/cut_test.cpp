// Compares the cut into stages with all possible cuts.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "model/shape.h"

namespace leeway {
namespace {

ModelShape random_shape() {
  const int64_t heads = *rc::gen::inRange<int64_t>(1, 5);
  const bool llama = *rc::gen::arbitrary<bool>();
  return {.architecture = llama ? Architecture::kLlama : Architecture::kGpt2,
          .activation = llama ? Activation::kSwiglu : Activation::kGelu,
          .bias = !llama,
          .layers = *rc::gen::inRange<int64_t>(1, 11),
          .width = heads * *rc::gen::inRange<int64_t>(2, 40),
          .heads = heads,
          .kv_heads = heads,
          .hidden = *rc::gen::inRange<int64_t>(1, 300),
          .context = *rc::gen::inRange<int64_t>(1, 2000),
          .vocabulary = *rc::gen::inRange<int64_t>(1, 3000)};
}

double largest_cost(const ModelShape& shape, const std::vector<StageSlice>& slices) {
  double largest = 0;
  for (const StageSlice& slice : slices) largest = std::max(largest, slice_cost(shape, slice));
  return largest;
}

// Tries every place for every boundary.
double best_of_all(const ModelShape& shape, int64_t first, int64_t stages) {
  const auto slice = [&](int64_t end) {
    return StageSlice{.first_layer = first,
                      .layers = end - first,
                      .embeds = first == 0,
                      .heads = end == shape.layers};
  };
  if (stages == 1) return slice_cost(shape, slice(shape.layers));
  double best = std::numeric_limits<double>::infinity();
  for (int64_t end = first + 1; end <= shape.layers - stages + 1; ++end) {
    best = std::min(best,
                    std::max(slice_cost(shape, slice(end)), best_of_all(shape, end, stages - 1)));
  }
  return best;
}

RC_GTEST_PROP(Cut, MinimizesTheLargestCost, ()) {
  const ModelShape shape = random_shape();
  const int64_t stages = *rc::gen::inRange<int64_t>(1, shape.layers + 1);
  const std::vector<StageSlice> slices = cut_into_stages(shape, stages);
  RC_ASSERT(largest_cost(shape, slices) == best_of_all(shape, 0, stages));
}

RC_GTEST_PROP(Cut, CoversEveryLayerOnceInOrder, ()) {
  const ModelShape shape = random_shape();
  const int64_t stages = *rc::gen::inRange<int64_t>(1, shape.layers + 1);
  const std::vector<StageSlice> slices = cut_into_stages(shape, stages);
  RC_ASSERT(static_cast<int64_t>(slices.size()) == stages);
  int64_t next = 0;
  for (size_t s = 0; s < slices.size(); ++s) {
    RC_ASSERT(slices[s].first_layer == next);
    RC_ASSERT(slices[s].layers >= 1);
    RC_ASSERT(slices[s].embeds == (s == 0));
    RC_ASSERT(slices[s].heads == (s + 1 == slices.size()));
    next += slices[s].layers;
  }
  RC_ASSERT(next == shape.layers);
}

RC_GTEST_PROP(Cut, KeepsEveryParameter, ()) {
  const ModelShape shape = random_shape();
  const int64_t stages = *rc::gen::inRange<int64_t>(1, shape.layers + 1);
  int64_t count = 0;
  for (const StageSlice& slice : cut_into_stages(shape, stages)) {
    count += parameter_count(slice_layout(shape, slice));
  }
  RC_ASSERT(count == parameter_count(slice_layout(shape, whole_model(shape))));
}

}  // namespace
}  // namespace leeway
