#include "inference/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "../../support/worker_testing.h"

namespace leeway {
namespace {

using testing::ElementsAre;

constexpr int64_t kContext = 8;

at::Tensor know_nothing(const Batch&) {
  return at::scalar_tensor(std::log(kVocabulary), at::kDouble);
}

class EvaluationTest : public testing::Test {
 protected:
  // The number of each window that was asked for.
  std::vector<int64_t> windows_read(const EvaluationOptions& options) {
    std::vector<int64_t> read;
    const auto loss = [&](const Batch& batch) {
      const at::Tensor& ids = batch.inputs;
      for (int64_t row = 0; row < ids.size(0); ++row) {
        int64_t position = 0;  // ids are 7 times their position: no two of 41 are the same
        while (position * 7 % kVocabulary != ids[row][0].item<int64_t>()) ++position;
        read.push_back(position / kContext);
      }
      return know_nothing(batch);
    };
    EXPECT_TRUE(evaluate(loss, tokens_.file(), options).has_value());
    return read;
  }

  Tokens tokens_{5 * kContext + 1};
};

TEST_F(EvaluationTest, OfAModelThatKnowsNothingIsTheLogarithmOfTheVocabulary) {
  // Batches of 2 leave one window over: it must not weigh more than the others.
  const auto result = evaluate(know_nothing, tokens_.file(), {.context = kContext, .batch = 2});
  ASSERT_TRUE(result.has_value());
  EXPECT_NEAR(result->loss, std::log(kVocabulary), 1e-12);
  EXPECT_EQ(result->windows, 5);
  EXPECT_EQ(result->tokens, 5 * kContext);
}

TEST_F(EvaluationTest, WeighsALastSmallerBatchByItsTokens) {
  // Certain and right about the first window, clueless about the other four.
  const auto loss = [](const Batch& batch) {
    EXPECT_TRUE(at::equal(batch.targets, (batch.inputs + 7) % kVocabulary));
    const at::Tensor clueless = batch.inputs.narrow(1, 0, 1) != 0;
    return clueless.to(at::kDouble).mean() * std::log(kVocabulary);
  };
  for (const int64_t batch : {1, 2, 4, 16}) {
    const auto result = evaluate(loss, tokens_.file(), {.context = kContext, .batch = batch});
    ASSERT_TRUE(result.has_value());
    EXPECT_NEAR(result->loss, 0.8 * std::log(kVocabulary), 1e-12) << batch;
  }
}

TEST_F(EvaluationTest, SpreadsFewerWindowsOverTheFile) {
  EXPECT_THAT(windows_read({.context = kContext, .windows = 0}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(windows_read({.context = kContext, .windows = 2}), ElementsAre(0, 2));
  EXPECT_THAT(windows_read({.context = kContext, .windows = 9}), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(EvaluationTest, ReportsProgressAndStopsWhenTold) {
  std::vector<std::pair<int64_t, int64_t>> heard;
  const auto result = evaluate(know_nothing, tokens_.file(), {.context = kContext, .batch = 2},
                               [&](int64_t done, int64_t total) {
                                 heard.emplace_back(done, total);
                                 return done < 4;
                               });
  EXPECT_FALSE(result.has_value());
  EXPECT_THAT(heard, ElementsAre(std::pair(2, 5), std::pair(4, 5)));
}

TEST(BitsPerByte, CountsTokensPerByte) {
  // 2 bits per token, one token per four bytes.
  EXPECT_NEAR(bits_per_byte(2 * std::log(2.0), {.count = 10, .text_bytes = 40}).value(), 0.5,
              1e-12);
}

TEST(BitsPerByte, IsUnknownIfTheTextLengthIs) {
  EXPECT_EQ(bits_per_byte(1.0, {.count = 10, .text_bytes = 0}), std::nullopt);
}

}  // namespace
}  // namespace leeway
