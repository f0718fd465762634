#include "checkpoint/saved_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  json["bytes_averaging"] = run.counters.bytes_averaging;
  json["bytes_copies"] = run.counters.bytes_copies;
  json["tokens_missed"] = run.counters.tokens_missed;
  json["shifted_sequences"] = run.counters.shifted_sequences;
  json["shifted_allreduce_bytes"] = run.counters.shifted_allreduce_bytes;
  json["replicas"] = Json::array();
  for (const ReplicaState& replica : run.state.replicas) {
    json["replicas"].push_back({{"updates", replica.optimizer.updates},
                                {"momentum_product", replica.optimizer.momentum_product},
                                {"rounds", replica.rounds}});
  }
  return json.dump(2) + "\n";
}

// Numbers that a run of this program can have; a forged update would train past the end of the run.
bool plausible(const SavedRun& run) {
  constexpr int64_t kUpdatesMax = 1'000'000'000;  // as run.updates
  constexpr int64_t kSequencesMax = 1'000'000'000'000'000;
  const auto counts = [](int64_t updates) { return updates >= 0 && updates <= kUpdatesMax; };
  const RunCounters& counters = run.counters;
  const bool sound =
      counts(counters.update) && counters.seconds >= 0 && counters.seconds_updating >= 0 &&
      counters.bytes_activations >= 0 && counters.bytes_gradients >= 0 &&
      counters.bytes_evaluation >= 0 && counters.bytes_averaging >= 0 &&
      counters.bytes_copies >= 0 && counters.tokens_missed >= 0 &&
      std::abs(counters.shifted_sequences) <= kSequencesMax && !run.state.replicas.empty();
  return sound && std::ranges::all_of(run.state.replicas, [&](const ReplicaState& replica) {
           const bool rounds = std::ranges::all_of(replica.rounds, [&](const auto& lanes) {
             return std::ranges::all_of(lanes, counts);
           });
           return rounds && counts(replica.optimizer.updates) &&
                  std::isfinite(replica.optimizer.momentum_product);
         });
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
    run.counters.bytes_averaging = json.at("bytes_averaging").get<int64_t>();
    run.counters.bytes_copies = json.value("bytes_copies", int64_t{0});
    run.counters.tokens_missed = json.value("tokens_missed", int64_t{0});
    run.counters.shifted_sequences = json.value("shifted_sequences", int64_t{0});
    run.counters.shifted_allreduce_bytes = json.value("shifted_allreduce_bytes", int64_t{0});
    for (const Json& replica : json.at("replicas")) {
      ReplicaState& state = run.state.replicas.emplace_back();
      state.optimizer.updates = replica.at("updates").get<int64_t>();
      state.optimizer.momentum_product = replica.at("momentum_product").get<double>();
      state.rounds = replica.at("rounds").get<std::vector<std::vector<int64_t>>>();
    }
  } catch (const std::exception&) {  // a missing or malformed member
    return wrong;
  }
  return plausible(run) ? Status() : Status(wrong);
}

// Whether a file of this many tensors and values is large enough for the model. Checked before
// anything is allocated: config.json may describe a model of any size.
bool may_hold(const ModelShape& shape, int64_t tensors, int64_t values) {
  const auto times_width = [&](int64_t size) {
    return static_cast<double>(shape.width) * static_cast<double>(size);
  };
  const double largest = std::max(times_width(shape.vocabulary), times_width(shape.hidden));
  if (shape.layers > tensors || largest > static_cast<double>(values)) return false;
  return parameter_count(slice_layout(shape, whole_model(shape))) <= values;
}

Result<at::Tensor> read_weights(const Path& path, const ModelShape& shape) {
  LEEWAY_ASSIGN(const TensorFile file, read_safetensors(path));
  std::map<std::string, at::Tensor> tensors;
  int64_t values = 0;
  for (const NamedTensor& named : file.tensors) {
    tensors[named.name] = named.tensor;
    values += named.tensor.numel();
  }
  if (tensors.empty()) return Error{path.string() + " has no tensors; use another checkpoint"};
  if (!may_hold(shape, std::ssize(tensors), values)) {
    return Error{fmt::format(
        "{} has {} values, fewer than the model that config.json describes; use another checkpoint",
        path.string(), values)};
  }
  const int64_t count = parameter_count(slice_layout(shape, whole_model(shape)));
  const at::Tensor flat = at::empty({count}, tensors.begin()->second.options());
  LEEWAY_TRY(from_hugging_face(shape, whole_model(shape), tensors, flat));
  return flat;
}

constexpr const char* kWeightsName = "weights";
std::string replica_prefix(size_t replica) { return fmt::format("replica.{}.", replica); }

// Gives every replica its own tensors.
Status take_buffers(const Path& path, TensorFile file, ModelState& state) {
  const int64_t parameters = state.weights.numel();
  const bool several = state.replicas.size() > 1;
  for (NamedTensor& named : file.tensors) {
    if (named.tensor.numel() != parameters) {
      return Error{fmt::format("{}: {} has {} values, but the model has {}; use another checkpoint",
                               path.string(), named.name, named.tensor.numel(), parameters)};
    }
    for (size_t r = 0; r < state.replicas.size(); ++r) {
      const std::string prefix = several ? replica_prefix(r) : std::string();
      if (!named.name.starts_with(prefix)) continue;
      const std::string name = named.name.substr(prefix.size());
      if (several && name == kWeightsName) {
        state.replicas[r].weights = named.tensor;
      } else {
        state.replicas[r].optimizer.buffers.emplace_back(name, named.tensor);
      }
      break;
    }
  }
  for (ReplicaState& replica : state.replicas) {
    if (!several) replica.weights = state.weights;
    if (!replica.weights.defined()) {
      return Error{path.string() + " lacks the weights of a replica; use another checkpoint"};
    }
  }
  return {};
}

std::string dtype_word(const at::Tensor& weights) {
  return weights.scalar_type() == at::kDouble ? "float64" : "float32";
}

}  // namespace

Result<Path> save_run(const Path& checkpoints, const SavedRun& run, int64_t keep) {
  TensorFile model{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (auto& [name, tensor] :
       to_hugging_face(run.shape, whole_model(run.shape), run.state.weights)) {
    model.tensors.push_back({name, tensor});
  }
  TensorFile state;
  const bool several = run.state.replicas.size() > 1;
  for (size_t r = 0; r < run.state.replicas.size(); ++r) {
    const ReplicaState& replica = run.state.replicas[r];
    const std::string prefix = several ? replica_prefix(r) : std::string();
    if (several) state.tensors.push_back({prefix + kWeightsName, replica.weights});
    for (const auto& [name, buffer] : replica.optimizer.buffers) {
      state.tensors.push_back({prefix + name, buffer});
    }
  }
  return write_checkpoint(
      checkpoints, run.counters.update,
      {{"config.json", hugging_face_config(run.shape, dtype_word(run.state.weights))},
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
  LEEWAY_ASSIGN(run.state.weights, read_weights(checkpoint / "model.safetensors", run.shape));
  if (!with_optimizer) return run;
  LEEWAY_ASSIGN(TensorFile state, read_safetensors(checkpoint / "state.safetensors"));
  LEEWAY_TRY(take_buffers(checkpoint / "state.safetensors", std::move(state), run.state));
  return run;
}

}  // namespace leeway
