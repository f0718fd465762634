// Writes and reads config.json. Both directions are in one file, so that a key is changed in both.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "model/hugging_face.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

Json llama_config(const ModelShape& shape) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", shape.vocabulary},
          {"hidden_size", shape.width},
          {"intermediate_size", shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", shape.head_size()},
          {"max_position_embeddings", shape.context},
          {"hidden_act", "silu"},
          {"rms_norm_eps", kNormEpsilon},
          {"rope_theta", kRotaryBase},  // transformers up to 4; the next line is for 5 and later
          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", kRotaryBase}}},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0}};
}

Json gpt2_config(const ModelShape& shape) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", shape.vocabulary},
          {"n_embd", shape.width},
          {"n_inner", shape.hidden},
          {"n_layer", shape.layers},
          {"n_head", shape.heads},
          {"n_positions", shape.context},
          {"activation_function", shape.activation == Activation::kRelu ? "relu" : "gelu_new"},
          {"layer_norm_epsilon", kNormEpsilon},
          {"bias", shape.bias},  // our own key; if false, Hugging Face's biases are zeros
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0}};
}

// Reads keys and remembers the first error; values read after it do not matter.
class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string where) : config_(config), where_(std::move(where)) {}

  // A positive integer. `fallback` 0: the key is required.
  int64_t count(const char* key, int64_t fallback = 0) {
    const Json* value = find(key);
    if (value == nullptr && fallback != 0) return fallback;
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    if (value == nullptr || !value->is_number_integer() || *value < 1 || *value > kMax) {
      fail(fmt::format("\"{}\" must be a positive integer, but is {}", key, text(value)));
      return 1;
    }
    return value->get<int64_t>();
  }
  std::string word(const char* key, const char* fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    return value->is_string() ? value->get<std::string>() : value->dump();
  }
  bool flag(const char* key, bool fallback) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) {
      fail(fmt::format("\"{}\" must be true or false, but is {}", key, text(value)));
    }
    return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
  }
  // A key for which Leeway supports only one value; `fallback` is Hugging Face's default.
  void require(const char* key, const Json& only, const Json& fallback) {
    const Json* value = find(key);
    const Json& given = value != nullptr ? *value : fallback;
    if (given != only) {
      fail(
          fmt::format("\"{}\" is {}, but Leeway supports only {}", key, given.dump(), only.dump()));
    }
  }
  void fail(std::string message) {
    if (message_.empty()) message_ = std::move(message);
  }
  Status status() const {
    if (message_.empty()) return {};
    return Error{where_ + ": " + message_};
  }

 private:
  const Json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::string text(const Json* value) {
    return value == nullptr ? "missing" : value->dump();
  }

  const Json& config_;
  std::string where_;
  std::string message_;
};

void read_rotary(const Json& config, ConfigReader& read) {
  // Version 5 of transformers writes rope_parameters; before that, rope_scaling described all other
  // variants.
  read.require("rope_scaling", nullptr, nullptr);
  if (const auto nested = config.find("rope_parameters");
      nested != config.end() && nested->is_object()) {
    ConfigReader inner(*nested, "rope_parameters");
    inner.require("rope_type", "default", "default");
    inner.require("rope_theta", kRotaryBase, kRotaryBase);
    if (const Status status = inner.status(); !status.ok()) read.fail(status.error().message);
  } else {
    read.require("rope_theta", kRotaryBase, kRotaryBase);
  }
}

ModelShape read_llama(const Json& config, ConfigReader& read) {
  ModelShape shape;
  shape.architecture = Architecture::kLlama;
  shape.activation = Activation::kSwiglu;
  shape.bias = false;
  shape.layers = read.count("num_hidden_layers");
  shape.width = read.count("hidden_size");
  shape.heads = read.count("num_attention_heads");
  shape.kv_heads = read.count("num_key_value_heads", shape.heads);
  shape.hidden = read.count("intermediate_size");
  shape.context = read.count("max_position_embeddings");
  shape.vocabulary = read.count("vocab_size");
  read.require("hidden_act", "silu", "silu");
  read.require("rms_norm_eps", kNormEpsilon, 1e-6);
  read.require("attention_bias", false, false);
  read.require("mlp_bias", false, false);
  read.require("tie_word_embeddings", false, false);
  read.require("head_dim", shape.head_size(), shape.head_size());
  read_rotary(config, read);
  return shape;
}

ModelShape read_gpt2(ConfigReader& read) {
  ModelShape shape;
  shape.architecture = Architecture::kGpt2;
  shape.layers = read.count("n_layer");
  shape.width = read.count("n_embd");
  shape.heads = read.count("n_head");
  shape.kv_heads = shape.heads;
  shape.hidden = read.count("n_inner", 4 * shape.width);
  shape.context = read.count("n_positions");
  shape.vocabulary = read.count("vocab_size");
  shape.bias = read.flag("bias", true);
  const std::string activation = read.word("activation_function", "gelu_new");
  if (activation == "relu") {
    shape.activation = Activation::kRelu;
  } else {
    shape.activation = Activation::kGelu;
    if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
      read.fail(fmt::format(
          "\"activation_function\" is \"{}\", but Leeway's gpt2 supports only gelu_new and relu",
          activation));
    }
  }
  read.require("layer_norm_epsilon", kNormEpsilon, kNormEpsilon);
  read.require("tie_word_embeddings", false, true);
  read.require("scale_attn_by_inverse_layer_idx", false, false);
  read.require("scale_attn_weights", true, true);
  return shape;
}

}  // namespace

std::string hugging_face_config(const ModelShape& shape, const std::string& dtype) {
  Json config =
      shape.architecture == Architecture::kLlama ? llama_config(shape) : gpt2_config(shape);
  config["tie_word_embeddings"] = false;
  // The defaults are ids from other vocabularies: generation would stop at an ordinary token.
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["use_cache"] = true;
  config["torch_dtype"] = dtype;  // transformers up to 4; the next line is for 5 and later
  config["dtype"] = dtype;
  return config.dump(2) + "\n";
}

Result<ModelShape> shape_from_hugging_face_config(const std::string& json) {
  // Values that nest deeper are of no use here, and to print them in an error would take the stack.
  constexpr int kDepthMax = 8;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  const Json config = Json::parse(json, shallow, /*allow_exceptions=*/false);
  if (!config.is_object()) return Error{"config.json is not a JSON object: is it cut short?"};
  ConfigReader read(config, "config.json");
  const std::string type = read.word("model_type", "");
  ModelShape shape;
  if (type == "llama") {
    shape = read_llama(config, read);
  } else if (type == "gpt2") {
    shape = read_gpt2(read);
  } else {
    read.fail(fmt::format("\"model_type\" is \"{}\"; Leeway supports llama and gpt2", type));
  }
  LEEWAY_TRY(read.status());
  if (shape.width % shape.heads != 0 || shape.heads % shape.kv_heads != 0) {
    return Error{
        fmt::format("config.json: a width of {} does not divide into {} heads, or the heads do not "
                    "divide into {} groups",
                    shape.width, shape.heads, shape.kv_heads)};
  }
  if (shape.architecture == Architecture::kLlama && shape.head_size() % 2 != 0) {
    return Error{fmt::format("config.json: rotary positions need an even head size, not {}",
                             shape.head_size())};
  }
  return shape;
}

}  // namespace leeway
