#include "inference/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace leeway {
namespace {

using testing::ElementsAre;

constexpr double kAlmostOne = 1.0 - 1.0 / (uint64_t{1} << 53);  // the largest possible u

at::Tensor logits_of(const std::vector<double>& chances) {
  return at::tensor(chances, at::kDouble).log();
}

TEST(DrawToken, GivesEachTokenItsShareLikeliestFirst) {
  const at::Tensor logits = logits_of({0.2, 0.5, 0.3});
  const auto draw = [&](double u) { return draw_token(logits, 1.0, 0, u); };
  EXPECT_EQ(draw(0.0), 1u);
  EXPECT_EQ(draw(0.49), 1u);
  EXPECT_EQ(draw(0.51), 2u);
  EXPECT_EQ(draw(0.79), 2u);
  EXPECT_EQ(draw(0.81), 0u);
  EXPECT_EQ(draw(kAlmostOne), 0u);
}

TEST(DrawToken, DrawsFromTheLikeliestKOnly) {
  const at::Tensor logits = logits_of({0.2, 0.5, 0.3});
  EXPECT_EQ(draw_token(logits, 1.0, 1, kAlmostOne), 1u);
  EXPECT_EQ(draw_token(logits, 1.0, 2, kAlmostOne), 2u);
  EXPECT_EQ(draw_token(logits, 1.0, 2, 0.61), 1u) << "0.5 of 0.8 and not of 1";
  EXPECT_EQ(draw_token(logits, 1.0, 100, kAlmostOne), 0u) << "there are only three";
}

TEST(DrawToken, IsBolderWithAHigherTemperature) {
  const at::Tensor logits = logits_of({0.9, 0.1});
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.8), 0u);
  EXPECT_EQ(draw_token(logits, 2.0, 0, 0.8), 1u) << "3 to 1 now";
  EXPECT_EQ(draw_token(logits, 0.1, 0, 0.999), 0u);
}

TEST(DrawToken, TakesTheLikeliestAtTemperatureZeroWhateverU) {
  const at::Tensor logits = logits_of({0.2, 0.3, 0.5});
  for (const double u : {0.0, 0.5, kAlmostOne}) EXPECT_EQ(draw_token(logits, 0.0, 0, u), 2u);
}

TEST(DrawToken, GivesTiedTokensTheSameShare) {
  const at::Tensor logits = at::zeros({4}, at::kFloat);
  std::vector<TokenId> drawn;
  for (const double u : {0.1, 0.3, 0.6, 0.9}) drawn.push_back(draw_token(logits, 1.0, 0, u));
  EXPECT_THAT(drawn, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(draw_token(logits, 0.0, 0, 0.1), draw_token(logits, 0.0, 0, 0.9));
}

TEST(DrawToken, HandlesImpossibleTokens) {
  const at::Tensor logits = at::tensor({-INFINITY, 0.0F, -INFINITY});
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.0), 1u);
  EXPECT_EQ(draw_token(logits, 1.0, 2, 0.5), 1u);
}

// A model that counts modulo ten: n + 1 follows id n. It remembers its inputs.
class Counting {
 public:
  at::Tensor operator()(const at::Tensor& ids) {
    seen.emplace_back(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
    return at::one_hot((ids.view(-1) + 1) % 10, 10).to(at::kFloat) * 20;
  }
  std::vector<std::vector<int64_t>> seen;
};

TEST(Generate, ContinuesAndDropsTokensOlderThanTheContext) {
  Counting model;
  std::vector<TokenId> heard;
  const auto made = generate(std::ref(model), {3, 4},
                             {.tokens = 4, .temperature = 0, .context = 3, .stop_at = {}},
                             [&](TokenId id) { heard.push_back(id); });
  EXPECT_THAT(made, ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(heard, made);
  EXPECT_THAT(model.seen, ElementsAre(ElementsAre(3, 4), ElementsAre(3, 4, 5), ElementsAre(4, 5, 6),
                                      ElementsAre(5, 6, 7)));
}

TEST(Generate, StopsAtTheMarkerAndLeavesItOut) {
  Counting model;
  std::vector<TokenId> heard;
  const auto made =
      generate(std::ref(model), {4}, {.tokens = 100, .temperature = 0, .context = 8, .stop_at = 7},
               [&](TokenId id) { heard.push_back(id); });
  EXPECT_THAT(made, ElementsAre(5, 6));
  EXPECT_EQ(heard, made);
}

TEST(Generate, RepeatsItselfOnlyWithTheSameSeed) {
  const auto text = [](uint64_t seed) {
    const auto flat = [](const at::Tensor& ids) { return at::zeros({ids.numel(), 50}); };
    return generate(flat, {1},
                    {.tokens = 20, .temperature = 1, .seed = seed, .context = 4, .stop_at = {}});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(GenerateDeath, NeedsAPrompt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // LibTorch has threads by now
  EXPECT_DEATH(generate(Counting(), {}, {.context = 4, .stop_at = {}}), "needs a prompt");
}

}  // namespace
}  // namespace leeway
