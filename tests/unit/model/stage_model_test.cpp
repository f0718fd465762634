#include "model/stage_model.h"

#include <gtest/gtest.h>

#include <map>

#include "layer_check.h"
#include "model/initial_weights.h"

namespace leeway {
namespace {

struct Outcome {
  at::Tensor head_in;
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
};

struct Tokens {
  at::Tensor ids;
  at::Tensor targets;
};

Tokens tokens_for(const ModelShape& shape, int64_t batch, int64_t time) {
  return {random_ids("ids", {batch, time}, shape.vocabulary),
          random_ids("targets", {batch, time}, shape.vocabulary)};
}

at::Tensor weights_for(const ModelShape& shape, const ParameterLayout& layout,
                       at::ScalarType dtype) {
  at::Tensor flat = at::empty({parameter_count(layout)}, dtype);
  fill_initial_weights(flat, shape, layout, 4);
  return flat.mul_(8);  // far from linear
}

// One forward and backward of the model in `stages` pieces.
Outcome run(const ModelShape& shape, int64_t stages, const Tokens& tokens,
            at::ScalarType dtype = at::kFloat) {
  const std::vector<StageSlice> slices = cut_into_stages(shape, stages);
  std::vector<StageModel> models;
  std::vector<StageViews> weights, gradients;
  for (const StageSlice& slice : slices) {
    models.emplace_back(shape, slice, at::TensorOptions(dtype));
    const at::Tensor flat = weights_for(shape, models.back().layout(), dtype);
    weights.push_back(models.back().view(flat));
    gradients.push_back(models.back().view(at::zeros_like(flat)));
  }
  std::vector<StageSaved> saved(slices.size());
  at::Tensor x = tokens.ids;
  for (size_t s = 0; s < slices.size(); ++s) x = models[s].forward(weights[s], x, &saved[s]);
  Outcome outcome;
  outcome.head_in = x;
  const HeadGradient head =
      head_gradient(weights.back().head, x, tokens.targets.view(-1), {}, gradients.back().head);
  outcome.loss = head.loss.item<double>();
  at::Tensor dx = head.dx;
  for (size_t s = slices.size(); s-- > 0;) {
    dx = models[s].backward(weights[s], std::move(saved[s]), dx, gradients[s]);
  }
  EXPECT_FALSE(dx.defined());
  for (size_t s = 0; s < slices.size(); ++s) {
    for (const Parameter& p : models[s].layout()) {
      outcome.gradients[p.name] = gradients[s].flat.narrow(0, p.offset, p.count());
    }
  }
  return outcome;
}

TEST(StageModel, SlicesEqualTheWholeBitForBit) {
  for (const ModelShape& shape : {small_llama(), small_gpt2()}) {
    const Tokens tokens = tokens_for(shape, 3, 13);
    const Outcome whole = run(shape, 1, tokens);
    for (const int64_t stages : {2, 3, 4}) {
      const Outcome cut = run(shape, stages, tokens);
      EXPECT_TRUE(at::equal(cut.head_in, whole.head_in)) << stages;
      EXPECT_EQ(cut.loss, whole.loss) << stages;
      ASSERT_EQ(cut.gradients.size(), whole.gradients.size());
      for (const auto& [name, gradient] : whole.gradients) {
        EXPECT_TRUE(at::equal(cut.gradients.at(name), gradient)) << name << ", " << stages;
        EXPECT_GT(gradient.norm().item<double>(), 0) << name << " gets no gradient";
      }
    }
  }
}

// Checks the whole backward without autograd: moving along the gradient changes the loss as fast as
// the gradient says.
TEST(StageModel, GradientIsTheSlopeOfTheLoss) {
  for (const ModelShape& shape : {small_llama(), small_gpt2()}) {
    const Tokens tokens = tokens_for(shape, 2, 9);
    const StageModel model(shape, whole_model(shape), at::TensorOptions(at::kDouble));
    const at::Tensor flat = weights_for(shape, model.layout(), at::kDouble);
    const auto loss_at = [&](const at::Tensor& weights) {
      const StageViews views = model.view(weights);
      const at::Tensor x = model.forward(views, tokens.ids, nullptr);
      return head_loss(views.head, x, tokens.targets.view(-1), 0).item<double>();
    };
    const Outcome outcome = run(shape, 1, tokens, at::kDouble);
    constexpr double kStep = 1e-5;
    for (const Parameter& p : model.layout()) {
      const at::Tensor direction = at::zeros_like(flat);
      const at::Tensor along = direction.narrow(0, p.offset, p.count());
      along.copy_(random_tensor(p.name, {p.count()}));
      along.div_(along.norm());
      const double numeric =
          (loss_at(flat + kStep * direction) - loss_at(flat - kStep * direction)) / (2 * kStep);
      const at::Tensor gradient = outcome.gradients.at(p.name);
      const double size = gradient.norm().item<double>();
      EXPECT_NEAR(numeric, (gradient * along).sum().item<double>(), 1e-6 * size) << p.name;
    }
  }
}

TEST(StageModel, BackwardAddsToTheGradients) {
  const ModelShape shape = small_gpt2();
  const Tokens tokens = tokens_for(shape, 2, 7);
  const StageModel model(shape, whole_model(shape), at::TensorOptions(at::kDouble));
  const StageViews w = model.view(weights_for(shape, model.layout(), at::kDouble));
  const StageViews g = model.view(at::zeros_like(w.flat));
  const at::Tensor dy = random_tensor("dy", {14, shape.width});
  const auto once = [&] {
    StageSaved saved;
    model.forward(w, tokens.ids, &saved);
    model.backward(w, std::move(saved), dy, g);
  };
  once();
  const at::Tensor first = g.flat.clone();
  once();
  EXPECT_LE(relative_distance(g.flat, 2 * first), 1e-14);
}

TEST(StageModel, EvaluationIsTheForward) {
  const ModelShape shape = small_llama();
  const Tokens tokens = tokens_for(shape, 2, 7);
  const StageModel model(shape, whole_model(shape), at::TensorOptions(at::kFloat));
  const StageViews w = model.view(weights_for(shape, model.layout(), at::kFloat));
  StageSaved saved;
  const at::Tensor training = model.forward(w, tokens.ids, &saved);
  EXPECT_TRUE(at::equal(training, model.forward(w, tokens.ids, nullptr)));
}

TEST(StageModel, WritesNeitherWeightsNorInput) {
  const ModelShape shape = small_llama();
  const StageSlice middle = {.first_layer = 1, .layers = 2, .embeds = false, .heads = false};
  const StageModel model(shape, middle, at::TensorOptions(at::kFloat));
  const StageViews w = model.view(weights_for(shape, model.layout(), at::kFloat));
  const StageViews g = model.view(at::zeros_like(w.flat));
  const at::Tensor x = random_tensor("x", {2, 7, shape.width}, at::kFloat);
  const at::Tensor dy = random_tensor("dy", {2, 7, shape.width}, at::kFloat);
  const at::Tensor weights = w.flat.clone(), input = x.clone(), gradient = dy.clone();
  StageSaved saved;
  const at::Tensor y = model.forward(w, x, &saved);
  const at::Tensor dx = model.backward(w, std::move(saved), dy, g);
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_EQ(dx.sizes(), x.sizes());
  EXPECT_TRUE(at::equal(w.flat, weights));
  EXPECT_TRUE(at::equal(x, input));
  EXPECT_TRUE(at::equal(dy, gradient));
}

TEST(StageModel, ATextLongerThanTheContextIsOurBug) {
  const ModelShape shape = small_llama();
  const StageModel model(shape, whole_model(shape), at::TensorOptions(at::kFloat));
  const StageViews w = model.view(weights_for(shape, model.layout(), at::kFloat));
  const at::Tensor ids = at::zeros({1, shape.context + 1}, at::kLong);
  EXPECT_DEATH(model.forward(w, ids, nullptr), "context");
}

}  // namespace
}  // namespace leeway
