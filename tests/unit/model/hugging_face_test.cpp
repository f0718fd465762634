#include "model/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "layer_check.h"

namespace leeway {
namespace {

using testing::HasSubstr;

ModelShape bias_free_gpt2() {
  ModelShape shape = small_gpt2();
  shape.bias = false;
  shape.activation = Activation::kRelu;
  return shape;
}

std::vector<ModelShape> shapes() { return {small_llama(), small_gpt2(), bias_free_gpt2()}; }

std::map<std::string, at::Tensor> exported(const ModelShape& shape, const at::Tensor& flat,
                                           const StageSlice& slice) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : to_hugging_face(shape, slice, flat)) {
    tensors[name] = tensor.contiguous().clone();
  }
  return tensors;
}

at::Tensor random_flat(const ModelShape& shape, const StageSlice& slice) {
  return random_tensor("flat", {parameter_count(slice_layout(shape, slice))}, at::kFloat);
}

TEST(HuggingFace, RoundTripGivesTheSameBits) {
  for (const ModelShape& shape : shapes()) {
    const at::Tensor flat = random_flat(shape, whole_model(shape));
    const at::Tensor back = at::zeros_like(flat);
    const auto tensors = exported(shape, flat, whole_model(shape));
    ASSERT_TRUE(from_hugging_face(shape, whole_model(shape), tensors, back).ok());
    EXPECT_TRUE(at::equal(back, flat));
  }
}

TEST(HuggingFace, SlicesTakeTheirPartOfAWholeFileAndTogetherWriteIt) {
  for (const ModelShape& shape : shapes()) {
    const auto whole = exported(shape, random_flat(shape, whole_model(shape)), whole_model(shape));
    size_t count = 0;
    for (const StageSlice& slice : cut_into_stages(shape, 3)) {
      const at::Tensor part = at::zeros_like(random_flat(shape, slice));
      ASSERT_TRUE(from_hugging_face(shape, slice, whole, part).ok());
      for (const auto& [name, tensor] : exported(shape, part, slice)) {
        EXPECT_TRUE(at::equal(tensor, whole.at(name))) << name;
        ++count;
      }
    }
    EXPECT_EQ(count, whole.size());
  }
}

TEST(HuggingFace, Gpt2StoresLinearWeightsTransposed) {
  const ModelShape shape = small_gpt2();
  const auto tensors = exported(shape, random_flat(shape, whole_model(shape)), whole_model(shape));
  const at::Tensor& fused = tensors.at("transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(fused.size(0), shape.width);
  EXPECT_EQ(fused.size(1), 3 * shape.width);
  EXPECT_EQ(tensors.at("transformer.h.4.mlp.c_fc.weight").size(1), shape.hidden);
  EXPECT_EQ(tensors.at("lm_head.weight").size(0), shape.vocabulary);
}

TEST(HuggingFace, AbsentBiasesAreZeros) {
  const ModelShape shape = bias_free_gpt2();
  auto tensors = exported(shape, random_flat(shape, whole_model(shape)), whole_model(shape));
  const std::string name = "transformer.h.1.mlp.c_proj.bias";
  EXPECT_TRUE(at::equal(tensors.at(name), at::zeros({shape.width})));
  const at::Tensor flat = random_flat(shape, whole_model(shape));
  tensors[name][2] = 1;
  const Status status = from_hugging_face(shape, whole_model(shape), tensors, flat);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr(name));
}

TEST(HuggingFace, AFileWithoutTheAbsentBiasesOpens) {
  const ModelShape shape = bias_free_gpt2();
  const at::Tensor flat = random_flat(shape, whole_model(shape));
  auto tensors = exported(shape, flat, whole_model(shape));
  std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with(".bias"); });
  const at::Tensor back = at::zeros_like(flat);
  ASSERT_TRUE(from_hugging_face(shape, whole_model(shape), tensors, back).ok());
  EXPECT_TRUE(at::equal(back, flat));
}

TEST(HuggingFace, NamesWhatIsMissingOrMisshapenAndWritesNothing) {
  for (const ModelShape& shape : {small_llama(), small_gpt2()}) {
    const at::Tensor flat = random_flat(shape, whole_model(shape));
    const auto tensors = exported(shape, flat, whole_model(shape));
    const at::Tensor target = at::zeros_like(flat);
    for (const auto& [name, tensor] : tensors) {
      auto broken = tensors;
      broken.erase(name);
      const Status missing = from_hugging_face(shape, whole_model(shape), broken, target);
      ASSERT_FALSE(missing.ok()) << name;
      EXPECT_THAT(missing.error().message, HasSubstr(name));
      broken[name] = at::zeros({3, 2});
      const Status misshapen = from_hugging_face(shape, whole_model(shape), broken, target);
      ASSERT_FALSE(misshapen.ok()) << name;
      EXPECT_THAT(misshapen.error().message, HasSubstr(name));
      EXPECT_THAT(misshapen.error().message, HasSubstr("[3, 2]"));
    }
    EXPECT_EQ(target.count_nonzero().item<int64_t>(), 0);
  }
}

TEST(HuggingFaceConfig, RoundTripGivesTheSameShape) {
  for (const ModelShape& shape : shapes()) {
    const auto read = shape_from_hugging_face_config(hugging_face_config(shape, "float32"));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(*read == shape);
  }
}

struct Change {
  const char* key;
  nlohmann::json value;
};

void expect_refused(const ModelShape& shape, const Change& change) {
  auto config = nlohmann::json::parse(hugging_face_config(shape, "float32"));
  config[change.key] = change.value;
  const auto read = shape_from_hugging_face_config(config.dump());
  ASSERT_FALSE(read.ok()) << change.key << " " << change.value;
  EXPECT_THAT(read.error().message, HasSubstr(change.key));
}

TEST(HuggingFaceConfig, RejectsWhatWouldBeComputedDifferently) {
  const std::vector<Change> llama_changes = {
      {"rms_norm_eps", 1e-6},
      {"hidden_act", "gelu"},
      {"attention_bias", true},
      {"mlp_bias", true},
      {"tie_word_embeddings", true},
      {"head_dim", 17},
      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
      {"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}}};
  for (const Change& change : llama_changes) expect_refused(small_llama(), change);
  const std::vector<Change> gpt2_changes = {{"layer_norm_epsilon", 1e-6},
                                            {"activation_function", "gelu"},
                                            {"tie_word_embeddings", true},
                                            {"tie_word_embeddings", nullptr},
                                            {"scale_attn_weights", false},
                                            {"scale_attn_by_inverse_layer_idx", true},
                                            {"bias", "no"}};
  for (const Change& change : gpt2_changes) expect_refused(small_gpt2(), change);
}

TEST(HuggingFaceConfig, RejectsInvalidShapes) {
  for (const nlohmann::json& value :
       {nlohmann::json(0), nlohmann::json(-3), nlohmann::json(2.5), nlohmann::json("12"),
        nlohmann::json(nullptr), nlohmann::json(uint64_t{1} << 63), nlohmann::json::array()}) {
    expect_refused(small_llama(), {"num_hidden_layers", value});
    expect_refused(small_gpt2(), {"n_embd", value});
  }
  expect_refused(small_llama(), {"model_type", "mistral"});
  expect_refused(small_llama(), {"model_type", nullptr});
  auto config = nlohmann::json::parse(hugging_face_config(small_gpt2(), "float32"));
  config["n_head"] = 4;
  EXPECT_FALSE(shape_from_hugging_face_config(config.dump()).ok());
  for (const char* text : {"", "{", "[]", "null", "{\"model_type\": \"llama\"}", "\xff"}) {
    EXPECT_FALSE(shape_from_hugging_face_config(text).ok()) << text;
  }
}

TEST(HuggingFaceConfig, AnErrorAboutADeepValueIsShort) {
  constexpr size_t kDepth = 200'000;  // to print it would take more stack than there is
  for (const char* key : {"rope_scaling", "vocab_size", "model_type"}) {
    auto config = nlohmann::json::parse(hugging_face_config(small_llama(), "float32"));
    config[key] = "HERE";
    std::string text = config.dump();
    text.replace(text.find("\"HERE\""), 6, std::string(kDepth, '[') + std::string(kDepth, ']'));
    const auto read = shape_from_hugging_face_config(text);
    ASSERT_FALSE(read.ok());
    EXPECT_LT(read.error().message.size(), 500) << key;
  }
}

TEST(HuggingFaceConfig, ReadsOldFilesAndDefaults) {
  auto config = nlohmann::json::parse(hugging_face_config(small_llama(), "float32"));
  config.erase("rope_parameters");  // transformers 4 has only rope_theta
  config["num_key_value_heads"] = nullptr;
  auto read = shape_from_hugging_face_config(config.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->kv_heads, read->heads);
  config["rope_theta"] = 500000.0;
  EXPECT_FALSE(shape_from_hugging_face_config(config.dump()).ok());

  auto gpt2 = nlohmann::json::parse(hugging_face_config(small_gpt2(), "float32"));
  gpt2.erase("bias");
  gpt2["n_inner"] = nullptr;
  read = shape_from_hugging_face_config(gpt2.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->bias);
  EXPECT_EQ(read->hidden, 4 * read->width);
}

}  // namespace
}  // namespace leeway
