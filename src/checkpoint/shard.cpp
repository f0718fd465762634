#include "checkpoint/shard.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kShardWeights = "weights";
constexpr const char* kShardPlace = "shard";  // in the metadata

Error no_shard(const Path& path) {
  return Error{path.string() + " is not a worker's part of a checkpoint; use another checkpoint"};
}

std::string place_of(const Shard& shard) {
  return Json{{"replica", shard.worker.replica.value},
              {"stage", shard.worker.stage.value},
              {"update", shard.update},
              {"updates", shard.optimizer.updates},
              {"momentum_product", shard.optimizer.momentum_product},
              {"rounds", shard.rounds}}
      .dump();
}

bool read_place(const std::string& text, Shard& shard) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    shard.worker = {.replica = {json.at("replica").get<int64_t>()},
                    .stage = {json.at("stage").get<int64_t>()}};
    shard.update = json.at("update").get<int64_t>();
    shard.optimizer.updates = json.at("updates").get<int64_t>();
    shard.optimizer.momentum_product = json.at("momentum_product").get<double>();
    shard.rounds = json.at("rounds").get<std::vector<int64_t>>();
  } catch (const std::exception&) {  // a missing or malformed member
    return false;
  }
  return true;
}

}  // namespace

std::string shard_name(WorkerId worker) {
  return fmt::format("replica-{}.stage-{}.safetensors", worker.replica.value, worker.stage.value);
}

Status write_shard(const Path& path, const Shard& shard) {
  TensorFile file = {.tensors = {{kShardWeights, shard.weights}},
                     .metadata = {{"format", "pt"}, {kShardPlace, place_of(shard)}}};
  for (const auto& [name, buffer] : shard.optimizer.buffers) file.tensors.push_back({name, buffer});
  return write_safetensors(path, file);
}

Result<Shard> read_shard(const Path& path) {
  LEEWAY_ASSIGN(TensorFile file, read_safetensors(path));
  Shard shard;
  const auto place = file.metadata.find(kShardPlace);
  if (place == file.metadata.end() || !read_place(place->second, shard)) return no_shard(path);
  for (NamedTensor& named : file.tensors) {
    if (named.name == kShardWeights) {
      shard.weights = std::move(named.tensor);
    } else {
      shard.optimizer.buffers.emplace_back(std::move(named.name), std::move(named.tensor));
    }
  }
  if (!shard.weights.defined() || shard.weights.dim() != 1) return no_shard(path);
  for (const auto& [name, buffer] : shard.optimizer.buffers) {
    if (buffer.sizes() == shard.weights.sizes()) continue;
    return Error{
        fmt::format("{}: {} has {} values, but there are {} weights; use another "
                    "checkpoint",
                    path.string(), name, buffer.numel(), shard.weights.numel())};
  }
  return shard;
}

Result<ShardWeights> map_shard_weights(const Path& path) {
  LEEWAY_ASSIGN(MappedTensors tensors, MappedTensors::open(path));
  at::Tensor weights = tensors.find(kShardWeights);
  if (!weights.defined() || weights.dim() != 1) return no_shard(path);
  return ShardWeights{std::move(tensors), std::move(weights)};
}

}  // namespace leeway
