#include "model/saved_bytes.h"

#include <gtest/gtest.h>

#include <map>

#include "../../support/model_shapes.h"
#include "layer_check.h"
#include "model/stage_model.h"

namespace leeway {
namespace {

// Bytes of the memory behind some tensors: memory shared by two views counts once.
class Storages {
 public:
  void add(const at::Tensor& tensor) {
    if (tensor.defined()) bytes_[tensor.storage().data()] = tensor.storage().nbytes();
  }
  void add(const NormSaved& norm) {
    add(norm.x);
    add(norm.mean);
    add(norm.rstd);
  }
  void add(const AttentionSaved& attention) {
    add(attention.qkv);
    add(attention.made.out);
    add(attention.made.logsumexp);
    add(attention.made.random_seed);
    add(attention.made.random_offset);
  }
  void add(const StageSaved& saved) {
    add(saved.ids);
    for (const BlockSaved& block : saved.blocks) {
      add(block.attention_norm);
      add(block.attention_in);
      add(block.attention);
      add(block.attention_out);
      add(block.mlp_norm);
      add(block.mlp_in);
      add(block.up);
      add(block.hidden);
    }
    add(saved.final_norm);
  }
  double total() const {
    double sum = 0;
    for (const auto& [data, bytes] : bytes_) sum += static_cast<double>(bytes);
    return sum;
  }

 private:
  std::map<const void*, size_t> bytes_;
};

constexpr int64_t kBatch = 3;

at::Tensor input_of(const ModelShape& shape, const StageSlice& slice, at::ScalarType dtype) {
  if (slice.embeds) return random_ids("ids", {kBatch, shape.context}, shape.vocabulary);
  return random_tensor("activations", {kBatch, shape.context, shape.width}, dtype);
}

class SavedBytes : public testing::TestWithParam<at::ScalarType> {};

TEST_P(SavedBytes, MatchTheTensors) {
  const at::ScalarType dtype = GetParam();
  for (const ModelShape& shape : {small_llama(), small_gpt2()}) {
    const MicrobatchSize size = {.tokens = kBatch * shape.context,
                                 .number_bytes = static_cast<int64_t>(c10::elementSize(dtype))};
    for (const StageSlice& slice : {whole_model(shape), cut_into_stages(shape, 3)[0],
                                    cut_into_stages(shape, 3)[1], cut_into_stages(shape, 3)[2]}) {
      const StageModel model(shape, slice, at::TensorOptions(dtype));
      const at::Tensor flat = random_tensor("w", {parameter_count(model.layout())}, dtype);
      const at::Tensor input = input_of(shape, slice, dtype);
      EXPECT_EQ(input_bytes(shape, slice, size), static_cast<double>(input.nbytes()));

      StageSaved saved;
      const at::Tensor output = model.forward(model.view(flat), input, &saved);
      Storages storages;
      storages.add(saved);
      const double planned = saved_bytes(shape, slice, size);
      EXPECT_NEAR(planned / storages.total(), 1, 0.02)
          << dtype << ", layers " << slice.layers << ", embeds " << slice.embeds << ", heads "
          << slice.heads << (shape.bias ? ", gpt2" : ", llama");
      if (!slice.heads) {
        EXPECT_EQ(head_bytes(shape, slice, size), 0);
        EXPECT_EQ(loss_bytes(shape, slice, size), 0);
        continue;
      }
      const at::Tensor targets = random_ids("targets", {size.tokens}, shape.vocabulary);
      EXPECT_EQ(head_bytes(shape, slice, size),
                static_cast<double>(output.nbytes() + targets.nbytes()));
    }
  }
}

TEST(LossBytes, AreThoseOfSomeRowsAtATime) {
  ModelShape shape = small_llama();
  shape.vocabulary = 50'257;
  const auto of = [&](int64_t tokens, const at::Device& device) {
    return loss_bytes(shape, whole_model(shape),
                      {.tokens = tokens, .number_bytes = 2, .device = device});
  };
  // A GPU pads the vocabulary, and the gradient takes the place of the logits.
  EXPECT_EQ(of(1000, at::kCUDA), 1000 * 50'304 * 2);
  // The CPU has fp32 ones and probabilities beside them.
  EXPECT_EQ(of(1000, at::kCPU), 1000 * 50'257 * (2 + 4 + 4));
  EXPECT_NEAR(of(1'000'000, at::kCUDA) / of(2'000'000, at::kCUDA), 1, 0.02);
  EXPECT_LE(of(1'000'000, at::kCUDA), 2.2e9);
  EXPECT_GT(of(1'000'000, at::kCUDA), 2e9) << "in large parts all the same";
  EXPECT_LE(of(1'000'000, at::kCPU), 7e8);
}

INSTANTIATE_TEST_SUITE_P(Types, SavedBytes,
                         testing::Values(at::kFloat, at::kBFloat16, at::kDouble));

}  // namespace
}  // namespace leeway
