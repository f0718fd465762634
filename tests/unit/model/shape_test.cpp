#include "model/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "layer_check.h"
#include "model/views.h"

namespace leeway {
namespace {

std::vector<ModelShape> shapes() {
  ModelShape without_bias = small_gpt2();
  without_bias.bias = false;
  return {small_llama(), small_gpt2(), without_bias};
}

TEST(Cut, OneStageIsTheWholeModel) {
  const std::vector<StageSlice> slices = cut_into_stages(small_llama(), 1);
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(slices[0].layers, 5);
  EXPECT_TRUE(slices[0].embeds);
  EXPECT_TRUE(slices[0].heads);
}

TEST(Cut, AHeavyHeadTakesLayersFromTheLastStage) {
  ModelShape shape = small_llama();
  shape.layers = 6;
  EXPECT_EQ(cut_into_stages(shape, 2)[1].layers, 3);
  shape.vocabulary = 2 * static_cast<int64_t>(block_cost(shape)) / shape.width;
  EXPECT_EQ(cut_into_stages(shape, 2)[1].layers, 2);
}

// Every way to cut; the smallest maximum wins, and of equal ones the cut whose last stages begin
// earliest.
double best_cut(const ModelShape& shape, int64_t stages, int64_t end,
                std::vector<int64_t>& begins) {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t first = stages - 1; first < end; ++first) {
    if (stages == 1 && first > 0) break;
    std::vector<int64_t> before;
    const double rest = stages == 1 ? 0 : best_cut(shape, stages - 1, first, before);
    const double own = slice_cost(shape, {.first_layer = first,
                                          .layers = end - first,
                                          .embeds = first == 0,
                                          .heads = end == shape.layers});
    if (std::max(rest, own) >= best) continue;
    best = std::max(rest, own);
    begins = before;
    begins.push_back(first);
  }
  return best;
}

TEST(Cut, IsTheBestOfAllCuts) {
  for (ModelShape shape : shapes()) {
    for (const int64_t vocabulary : {1, 300, 3000, 100'000}) {
      shape.vocabulary = vocabulary;
      for (shape.layers = 1; shape.layers <= 9; ++shape.layers) {
        for (int64_t stages = 1; stages <= shape.layers; ++stages) {
          std::vector<int64_t> wanted;
          best_cut(shape, stages, shape.layers, wanted);
          std::vector<int64_t> begins;
          for (const StageSlice& slice : cut_into_stages(shape, stages))
            begins.push_back(slice.first_layer);
          EXPECT_EQ(begins, wanted) << shape.layers << " layers, " << stages << " stages";
        }
      }
    }
  }
}

TEST(Cut, OfThousandsOfLayersTakesNoMinute) {
  ModelShape shape = small_llama();
  shape.layers = 4096;
  for (const int64_t stages : {2048, 4096}) {
    EXPECT_EQ(cut_into_stages(shape, stages).size(), static_cast<size_t>(stages));
  }
}

TEST(Cut, MoreStagesThanLayersIsOurBug) {
  EXPECT_DEATH(cut_into_stages(small_llama(), 6), "rejects other cuts");
}

TEST(Layout, HasNoGapsAndNoDuplicateNames) {
  for (const ModelShape& shape : shapes()) {
    std::set<std::string> names;
    int64_t next = 0;
    for (const Parameter& parameter : slice_layout(shape, whole_model(shape))) {
      EXPECT_EQ(parameter.offset, next);
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
      next += parameter.count();
    }
  }
}

TEST(Layout, CutsHaveTheParametersOfTheWhole) {
  for (const ModelShape& shape : shapes()) {
    const ParameterLayout whole = slice_layout(shape, whole_model(shape));
    ParameterLayout joined;
    for (const StageSlice& slice : cut_into_stages(shape, 3)) {
      for (const Parameter& parameter : slice_layout(shape, slice)) joined.push_back(parameter);
    }
    ASSERT_EQ(joined.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(joined[i].name, whole[i].name);
      EXPECT_EQ(joined[i].kind, whole[i].kind);
      EXPECT_EQ(joined[i].rows, whole[i].rows);
      EXPECT_EQ(joined[i].cols, whole[i].cols);
    }
  }
}

TEST(Layout, KindsMatchHowOptimizersTreatThem) {
  for (const Parameter& parameter : slice_layout(small_gpt2(), whole_model(small_gpt2()))) {
    const bool block = parameter.name.starts_with("layers.");
    const bool bias = parameter.name.ends_with(".bias");
    if (bias || parameter.name.find("norm") != std::string::npos) {
      EXPECT_EQ(parameter.kind, ParameterKind::kVector) << parameter.name;
      EXPECT_EQ(parameter.rows, 1) << parameter.name;
    } else if (block) {
      EXPECT_EQ(parameter.kind, ParameterKind::kMatrix) << parameter.name;
    } else {
      const bool head = parameter.name == "head.weight";
      EXPECT_EQ(parameter.kind, head ? ParameterKind::kHead : ParameterKind::kEmbedding);
    }
  }
}

// The views, under the layout's name for the place where each begins.
std::map<std::string, const at::Tensor*> named_views(const ModelShape& shape,
                                                     const StageViews& views) {
  std::map<std::string, const at::Tensor*> named = {{"embedding.weight", &views.embedding},
                                                    {"final_norm.weight", &views.final_norm.weight},
                                                    {"head.weight", &views.head.weight}};
  if (shape.architecture == Architecture::kGpt2) named["positions.weight"] = &views.positions;
  if (shape.bias) named["final_norm.bias"] = &views.final_norm.bias;
  for (size_t i = 0; i < views.blocks.size(); ++i) {
    const BlockViews& block = views.blocks[i];
    const std::string at = "layers." + std::to_string(i) + ".";
    const bool gated = shape.activation == Activation::kSwiglu;
    named[at + "attention_norm.weight"] = &block.attention_norm.weight;
    named[at + "attention.q.weight"] = &block.qkv.weight;
    named[at + "attention.out.weight"] = &block.out.weight;
    named[at + "mlp_norm.weight"] = &block.mlp_norm.weight;
    named[at + (gated ? "mlp.gate.weight" : "mlp.up.weight")] = &block.up.weight;
    named[at + "mlp.down.weight"] = &block.down.weight;
    if (!shape.bias) continue;
    named[at + "attention_norm.bias"] = &block.attention_norm.bias;
    named[at + "attention.qkv.bias"] = &block.qkv.bias;
    named[at + "attention.out.bias"] = &block.out.bias;
    named[at + "mlp_norm.bias"] = &block.mlp_norm.bias;
    named[at + "mlp.up.bias"] = &block.up.bias;
    named[at + "mlp.down.bias"] = &block.down.bias;
  }
  return named;
}

TEST(Views, AreWhereTheLayoutSays) {
  for (const ModelShape& shape : shapes()) {
    const ParameterLayout layout = slice_layout(shape, whole_model(shape));
    const at::Tensor flat = at::arange(parameter_count(layout), at::kDouble);
    const StageViews views = view_stage(flat, shape, whole_model(shape));
    std::map<std::string, const at::Tensor*> named = named_views(shape, views);
    for (const Parameter& parameter : layout) {
      const auto found = named.find(parameter.name);
      if (found == named.end()) {  // The rest of a fused product.
        EXPECT_TRUE(parameter.name.ends_with("attention.k.weight") ||
                    parameter.name.ends_with("attention.v.weight") ||
                    parameter.name.ends_with("mlp.up.weight"))
            << parameter.name;
        continue;
      }
      EXPECT_EQ(found->second->flatten()[0].item<int64_t>(), parameter.offset) << parameter.name;
      EXPECT_EQ(found->second->size(-1), parameter.cols) << parameter.name;
      named.erase(found);
    }
    EXPECT_TRUE(named.empty());
  }
}

TEST(Views, ShareMemoryWithTheBuffer) {
  const ModelShape shape = small_llama();
  const at::Tensor flat =
      at::zeros({parameter_count(slice_layout(shape, whole_model(shape)))}, at::kFloat);
  const StageViews views = view_stage(flat, shape, whole_model(shape));
  views.blocks[2].down.weight.fill_(1);
  EXPECT_EQ(flat.sum().item<int64_t>(), shape.width * shape.hidden);
}

TEST(Views, OfAnotherBufferIsOurBug) {
  const at::Tensor flat =
      at::zeros({1 + parameter_count(slice_layout(small_llama(), whole_model(small_llama())))});
  EXPECT_DEATH(view_stage(flat, small_llama(), whole_model(small_llama())), "same order");
}

}  // namespace
}  // namespace leeway
