// Checkpoints as earlier versions wrote them: all replicas in one file, counters in state.json.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/saved_run.h"
#include "model/hugging_face.h"

namespace leeway {

inline nlohmann::json format_1_state(const SavedRun& run) {
  const RunCounters& counters = run.counters;
  nlohmann::json json = {{"version", "0.1.0"},
                         {"update", counters.update},
                         {"seconds", counters.seconds},
                         {"seconds_updating", counters.seconds_updating},
                         {"recent_losses", counters.recent_losses},
                         {"tokenizer_hash", hash_hex(counters.tokenizer_hash)},
                         {"data_hash", hash_hex(counters.data_hash)},
                         {"bytes_activations", counters.bytes_activations},
                         {"bytes_gradients", counters.bytes_gradients},
                         {"bytes_evaluation", counters.bytes_evaluation},
                         {"bytes_averaging", counters.bytes_averaging},
                         {"tokens_missed", counters.tokens_missed},
                         {"replicas", nlohmann::json::array()}};
  for (const ReplicaState& replica : run.state.replicas) {
    json["replicas"].push_back({{"updates", replica.optimizer.updates},
                                {"momentum_product", replica.optimizer.momentum_product},
                                {"rounds", replica.rounds}});
  }
  return json;
}

inline TensorFile format_1_buffers(const SavedRun& run) {
  TensorFile state;
  const bool several = run.state.replicas.size() > 1;
  for (size_t r = 0; r < run.state.replicas.size(); ++r) {
    const ReplicaState& replica = run.state.replicas[r];
    const std::string prefix = several ? fmt::format("replica.{}.", r) : std::string();
    if (several) state.tensors.push_back({prefix + "weights", replica.weights});
    for (const auto& [name, buffer] : replica.optimizer.buffers) {
      state.tensors.push_back({prefix + name, buffer});
    }
  }
  return state;
}

// `state` and `buffers` may be wrong: the manifest fits them.
inline Result<Path> save_format_1(const Path& checkpoints, const SavedRun& run,
                                  const std::string& state, TensorFile buffers) {
  TensorFile model{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (auto& [name, tensor] :
       to_hugging_face(run.shape, whole_model(run.shape), run.state.weights)) {
    model.tensors.push_back({name, tensor});
  }
  return write_checkpoint(checkpoints, run.counters.update,
                          {{"config.json", hugging_face_config(run.shape, "float32")},
                           {"model.safetensors", std::move(model)},
                           {"state.safetensors", std::move(buffers)},
                           {"state.json", state}},
                          /*keep=*/3);
}

inline Result<Path> save_format_1(const Path& checkpoints, const SavedRun& run) {
  return save_format_1(checkpoints, run, format_1_state(run).dump(), format_1_buffers(run));
}

}  // namespace leeway
