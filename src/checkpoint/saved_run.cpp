#include "checkpoint/saved_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/model_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"
#include "model/hugging_face.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

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

Error not_a_state(const Path& path) {
  return Error{
      fmt::format("{} is not the state of a run of this version; resume from another checkpoint",
                  path.string())};
}

// Format 1 has the replicas' counters too; else they are in the shards.
Status parse_counters(const Path& path, bool with_replicas, SavedRun& run) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  Result<RunCounters> counters = counters_from(text);
  if (!counters.ok()) return not_a_state(path);
  run.counters = std::move(*counters);
  if (!with_replicas) return {};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    for (const Json& replica : json.at("replicas")) {
      ReplicaState& state = run.state.replicas.emplace_back();
      state.optimizer.updates = replica.at("updates").get<int64_t>();
      state.optimizer.momentum_product = replica.at("momentum_product").get<double>();
      state.rounds = replica.at("rounds").get<std::vector<std::vector<int64_t>>>();
    }
  } catch (const std::exception&) {  // a missing or malformed member
    return not_a_state(path);
  }
  return {};
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

// One replica of a checkpoint in shards.
Result<ReplicaState> join_replica(const Path& folder, std::span<const ManifestShard> stages) {
  ReplicaState whole;
  std::vector<at::Tensor> weights;
  std::vector<std::vector<at::Tensor>> buffers;  // by buffer, then by stage
  for (const ManifestShard& expected : stages) {
    const Path path = folder / expected.name;
    LEEWAY_ASSIGN(Shard shard, read_shard(path));
    if (weights.empty()) {
      whole.optimizer = shard.optimizer;
      buffers.resize(shard.optimizer.buffers.size());
    }
    bool fits = shard.worker == expected.worker && shard.update == expected.update &&
                shard.optimizer.buffers.size() == buffers.size() &&
                shard.optimizer.updates == whole.optimizer.updates;
    for (size_t b = 0; fits && b < buffers.size(); ++b) {
      fits = shard.optimizer.buffers[b].first == whole.optimizer.buffers[b].first;
      buffers[b].push_back(shard.optimizer.buffers[b].second);
    }
    if (!fits) {
      return Error{
          fmt::format("{} is not the part of the checkpoint that the manifest names; use "
                      "another checkpoint",
                      path.string())};
    }
    weights.push_back(std::move(shard.weights));
    whole.rounds.push_back(std::move(shard.rounds));
    whole.chunks.push_back(std::move(shard.chunks));
    whole.sent.push_back(std::move(shard.sent));
  }
  whole.weights = at::cat(weights);
  for (size_t b = 0; b < buffers.size(); ++b) {
    whole.optimizer.buffers[b].second = at::cat(std::exchange(buffers[b], {}));
  }
  return whole;
}

// Where a replica was, from the manifest alone.
ReplicaState counters_of(std::span<const ManifestShard> stages) {
  ReplicaState whole;
  whole.optimizer.updates = stages.front().update;
  for (const ManifestShard& stage : stages) whole.rounds.push_back(stage.rounds);
  return whole;
}

// A run resumes with all its replicas: one that is missing begins as a copy of another.
Status load_shards(const Path& folder, const ManifestMesh& mesh, bool with_optimizer,
                   SavedRun& run) {
  const auto stages = static_cast<size_t>(mesh.stages);
  std::map<int64_t, ReplicaState> found;
  for (size_t first = 0; first < mesh.shards.size(); first += stages) {
    const auto shards = std::span(mesh.shards).subspan(first, stages);
    const int64_t replica = shards.front().worker.replica.value;
    if (!with_optimizer) {
      found[replica] = counters_of(shards);
      continue;
    }
    LEEWAY_ASSIGN(found[replica], join_replica(folder, shards));
    if (found[replica].weights.numel() != run.state.weights.numel()) {
      return Error{fmt::format(
          "{}: replica {} has {} weights, but the model has {}; use another "
          "checkpoint",
          folder.string(), replica, found[replica].weights.numel(), run.state.weights.numel())};
    }
  }
  for (int64_t r = 0; r < mesh.replicas; ++r) {
    const auto own = found.find(r);
    if (own == found.end()) run.cloned.push_back(r);
    run.state.replicas.push_back(own == found.end() ? found.begin()->second : own->second);
  }
  return {};
}

std::string dtype_word(at::ScalarType type) { return type == at::kDouble ? "float64" : "float32"; }

// The shards of a whole run, replica after replica.
std::vector<Shard> cut_into_shards(const SavedRun& run, int64_t stages) {
  const std::vector<StageSlice> slices = cut_into_stages(run.shape, stages);
  std::vector<Shard> shards;
  for (size_t r = 0; r < run.state.replicas.size(); ++r) {
    const ReplicaState& replica = run.state.replicas[r];
    int64_t offset = 0;
    for (size_t s = 0; s < slices.size(); ++s) {
      const int64_t count = parameter_count(slice_layout(run.shape, slices[s]));
      Shard shard = {
          .worker = {.replica = {static_cast<int64_t>(r)}, .stage = {static_cast<int64_t>(s)}},
          .update = replica.optimizer.updates,
          .weights = replica.weights.narrow(0, offset, count),
          .optimizer = replica.optimizer};
      for (auto& [name, buffer] : shard.optimizer.buffers) buffer = buffer.narrow(0, offset, count);
      if (s < replica.rounds.size()) shard.rounds = replica.rounds[s];
      if (s < replica.chunks.size()) shard.chunks = replica.chunks[s];
      shards.push_back(std::move(shard));
      offset += count;
    }
  }
  return shards;
}

ManifestShard entry_of(const Shard& shard) {
  return {.name = shard_name(shard.worker),
          .worker = shard.worker,
          .update = shard.update,
          .rounds = shard.rounds,
          .answers = answers_of(shard.chunks)};
}

}  // namespace

std::string counters_text(const RunCounters& counters) {
  Json json;
  json["version"] = LEEWAY_VERSION;
  json["update"] = counters.update;
  json["seconds"] = counters.seconds;
  json["seconds_updating"] = counters.seconds_updating;
  json["recent_losses"] = counters.recent_losses;
  // Hashes as text: JSON readers keep only 53 bits of a number.
  json["tokenizer_hash"] = hash_hex(counters.tokenizer_hash);
  json["data_hash"] = hash_hex(counters.data_hash);
  json["bytes_activations"] = counters.bytes_activations;
  json["bytes_gradients"] = counters.bytes_gradients;
  json["bytes_evaluation"] = counters.bytes_evaluation;
  json["bytes_averaging"] = counters.bytes_averaging;
  json["bytes_copies"] = counters.bytes_copies;
  json["tokens_missed"] = counters.tokens_missed;
  json["shifted_sequences"] = counters.shifted_sequences;
  json["shifted_allreduce_bytes"] = counters.shifted_allreduce_bytes;
  return json.dump(2) + "\n";
}

Result<RunCounters> counters_from(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  RunCounters counters;
  try {
    const auto hash = [&](const char* name) {
      return std::stoull(json.at(name).get<std::string>(), nullptr, 16);
    };
    counters.update = json.at("update").get<int64_t>();
    counters.seconds = json.at("seconds").get<double>();
    counters.seconds_updating = json.at("seconds_updating").get<double>();
    counters.recent_losses = json.at("recent_losses").get<std::deque<double>>();
    counters.tokenizer_hash = hash("tokenizer_hash");
    counters.data_hash = hash("data_hash");
    counters.bytes_activations = json.at("bytes_activations").get<int64_t>();
    counters.bytes_gradients = json.at("bytes_gradients").get<int64_t>();
    counters.bytes_evaluation = json.at("bytes_evaluation").get<int64_t>();
    counters.bytes_averaging = json.at("bytes_averaging").get<int64_t>();
    counters.bytes_copies = json.value("bytes_copies", int64_t{0});
    counters.tokens_missed = json.value("tokens_missed", int64_t{0});
    counters.shifted_sequences = json.value("shifted_sequences", int64_t{0});
    counters.shifted_allreduce_bytes = json.value("shifted_allreduce_bytes", int64_t{0});
  } catch (const std::exception&) {  // a missing or malformed member
    return Error{"these are not the counters of a run"};
  }
  return counters;
}

Result<Path> save_run(const Path& checkpoints, const SavedRun& run, int64_t keep, int64_t stages) {
  TensorFile model{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (auto& [name, tensor] :
       to_hugging_face(run.shape, whole_model(run.shape), run.state.weights)) {
    model.tensors.push_back({name, tensor});
  }
  const auto replicas = std::ssize(run.state.replicas);
  ManifestMesh mesh = {
      .stages = stages, .replicas = replicas, .members = ReplicaSet::first(replicas)};
  std::vector<CheckpointFile> files = {
      {"config.json", hugging_face_config(run.shape, dtype_word(run.state.weights.scalar_type()))},
      {"model.safetensors", std::move(model)},
      {"state.json", counters_text(run.counters)}};
  for (Shard& shard : cut_into_shards(run, stages)) {
    mesh.shards.push_back(entry_of(shard));
    files.push_back({mesh.shards.back().name, [shard = std::move(shard)](const Path& path) {
                       return write_shard(path, shard);
                     }});
  }
  return write_checkpoint(checkpoints, run.counters.update, files, keep, mesh);
}

Result<JoinedRun> join_shards(const Path& checkpoints, const ShardedRun& run, int64_t keep) {
  ManifestMesh mesh = run.mesh;
  std::vector<std::vector<Path>> by_stage(static_cast<size_t>(mesh.stages));
  std::vector<CheckpointFile> files;
  for (const ShardFile& shard : run.shards) {
    ManifestShard place = shard.place;
    place.name = shard_name(place.worker);
    by_stage[static_cast<size_t>(place.worker.stage.value)].push_back(shard.path);
    files.push_back(
        {.name = place.name,
         .content = [from = shard.path](const Path& to) { return link_or_copy(from, to); },
         .hash = shard.hash});
    mesh.shards.push_back(std::move(place));
  }
  LEEWAY_ASSIGN(const ShardWeights any, map_shard_weights(run.shards.front().path));
  files.push_back(
      {"config.json", hugging_face_config(run.shape, dtype_word(any.weights.scalar_type()))});
  uint64_t weights_hash = 0;
  files.push_back({"model.safetensors", [&](const Path& path) -> Status {
                     LEEWAY_ASSIGN(weights_hash, write_model(path, run.shape, by_stage));
                     return {};
                   }});
  files.push_back({"state.json", counters_text(run.counters)});
  LEEWAY_ASSIGN(Path path, write_checkpoint(checkpoints, run.number, files, keep, mesh));
  return JoinedRun{std::move(path), weights_hash};
}

Result<SavedRun> load_run(const Path& checkpoint, bool with_optimizer) {
  LEEWAY_TRY(verify_checkpoint(checkpoint));
  LEEWAY_ASSIGN(const Manifest manifest, read_manifest(checkpoint));
  const bool sharded = !manifest.mesh.shards.empty();
  SavedRun run;
  LEEWAY_TRY(parse_counters(checkpoint / "state.json", /*with_replicas=*/!sharded, run));
  LEEWAY_ASSIGN(const std::string config, read_text(checkpoint / "config.json"));
  LEEWAY_ASSIGN(run.shape, shape_from_hugging_face_config(config));
  LEEWAY_ASSIGN(run.state.weights, read_weights(checkpoint / "model.safetensors", run.shape));
  if (sharded) {
    LEEWAY_TRY(load_shards(checkpoint, manifest.mesh, with_optimizer, run));
  }
  if (!plausible(run)) return not_a_state(checkpoint / "state.json");
  if (sharded || !with_optimizer) return run;
  LEEWAY_ASSIGN(TensorFile state, read_safetensors(checkpoint / "state.safetensors"));
  LEEWAY_TRY(take_buffers(checkpoint / "state.safetensors", std::move(state), run.state));
  return run;
}

}  // namespace leeway
