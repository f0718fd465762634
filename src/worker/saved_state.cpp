#include "worker/saved_state.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/safetensors.h"
#include "model/hugging_face.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

std::string counters_text(const SavedRun& run) {
  Json json;
  json["version"] = LEEWAY_VERSION;
  json["update"] = run.counters.update;
  json["seconds"] = run.counters.seconds;
  json["seconds_updating"] = run.counters.seconds_updating;
  json["recent_losses"] = run.counters.recent_losses;
  // Hashes as text: JSON readers keep only 53 bits of a number.
  json["tokenizer_hash"] = hash_hex(run.counters.tokenizer_hash);
  json["data_hash"] = hash_hex(run.counters.data_hash);
  json["bytes_activations"] = run.counters.bytes_activations;
  json["bytes_gradients"] = run.counters.bytes_gradients;
  json["bytes_evaluation"] = run.counters.bytes_evaluation;
  json["optimizer_updates"] = run.optimizer.updates;
  json["momentum_product"] = run.optimizer.momentum_product;
  return json.dump(2) + "\n";
}

Status parse_counters(const Path& path, SavedRun& run) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto wrong = Error{
      fmt::format("{} is not the state of a run of this version; resume from another checkpoint",
                  path.string())};
  if (!json.is_object()) return wrong;
  try {
    run.counters.update = json.at("update").get<int64_t>();
    run.counters.seconds = json.at("seconds").get<double>();
    run.counters.seconds_updating = json.at("seconds_updating").get<double>();
    run.counters.recent_losses = json.at("recent_losses").get<std::deque<double>>();
    run.counters.tokenizer_hash =
        std::stoull(json.at("tokenizer_hash").get<std::string>(), nullptr, 16);
    run.counters.data_hash = std::stoull(json.at("data_hash").get<std::string>(), nullptr, 16);
    run.counters.bytes_activations = json.at("bytes_activations").get<int64_t>();
    run.counters.bytes_gradients = json.at("bytes_gradients").get<int64_t>();
    run.counters.bytes_evaluation = json.at("bytes_evaluation").get<int64_t>();
    run.optimizer.updates = json.at("optimizer_updates").get<int64_t>();
    run.optimizer.momentum_product = json.at("momentum_product").get<double>();
  } catch (const std::exception&) {  // a missing or misshapen member, whichever
    return wrong;
  }
  return {};
}

Result<at::Tensor> read_weights(const Path& path, const ModelShape& shape) {
  LEEWAY_ASSIGN(const TensorFile file, read_safetensors(path));
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& named : file.tensors) tensors[named.name] = named.tensor;
  const int64_t count = parameter_count(slice_layout(shape, whole_model(shape)));
  if (tensors.empty()) return Error{path.string() + " holds no tensors; use another checkpoint"};
  const at::Tensor flat = at::empty({count}, tensors.begin()->second.options());
  LEEWAY_TRY(from_hugging_face(shape, whole_model(shape), tensors, flat));
  return flat;
}

std::string dtype_word(const at::Tensor& weights) {
  return weights.scalar_type() == at::kDouble ? "float64" : "float32";
}

}  // namespace

Result<Path> save_run(const Path& checkpoints, const SavedRun& run, int64_t keep) {
  TensorFile model{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (auto& [name, tensor] : to_hugging_face(run.shape, whole_model(run.shape), run.weights)) {
    model.tensors.push_back({name, tensor});
  }
  TensorFile state;
  for (const auto& [name, buffer] : run.optimizer.buffers) state.tensors.push_back({name, buffer});
  return write_checkpoint(checkpoints, run.counters.update,
                          {{"config.json", hugging_face_config(run.shape, dtype_word(run.weights))},
                           {"model.safetensors", std::move(model)},
                           {"state.safetensors", std::move(state)},
                           {"state.json", counters_text(run)}},
                          keep);
}

Result<SavedRun> load_run(const Path& checkpoint, bool with_optimizer) {
  LEEWAY_TRY(verify_checkpoint(checkpoint));
  SavedRun run;
  LEEWAY_TRY(parse_counters(checkpoint / "state.json", run));
  LEEWAY_ASSIGN(const std::string config, read_text(checkpoint / "config.json"));
  LEEWAY_ASSIGN(run.shape, shape_from_hugging_face_config(config));
  LEEWAY_ASSIGN(run.weights, read_weights(checkpoint / "model.safetensors", run.shape));
  if (!with_optimizer) return run;
  LEEWAY_ASSIGN(TensorFile state, read_safetensors(checkpoint / "state.safetensors"));
  for (NamedTensor& named : state.tensors) {
    if (named.tensor.numel() != run.weights.numel()) {
      return Error{fmt::format("{}: {} has {} numbers and the model {}; use another checkpoint",
                               (checkpoint / "state.safetensors").string(), named.name,
                               named.tensor.numel(), run.weights.numel())};
    }
    run.optimizer.buffers.emplace_back(named.name, named.tensor);
  }
  return run;
}

}  // namespace leeway
