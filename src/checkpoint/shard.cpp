#include "checkpoint/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "averaging/newcomer.h"
#include "base/hash.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kShardWeights = "weights";
constexpr const char* kShardPlace = "shard";  // in the metadata

Error no_shard(const Path& path) {
  return Error{path.string() + " is not a worker's part of a checkpoint; use another checkpoint"};
}

constexpr std::string_view kSent = "sent.";  // then chunk and number

Json chunk_json(const ChunkPosition& chunk) {
  Json counted = Json::array();
  for (const CountedParts& parts : chunk.counted) {
    counted.push_back({parts.replica.value, parts.newest, hash_hex(parts.before)});
  }
  return {{"values", chunk.values},
          {"answer", chunk.answer},
          {"chain", hash_hex(chunk.chain)},
          {"counted", counted}};
}

// Throws what the JSON library throws for a missing or malformed member.
ChunkPosition parse_chunk(const Json& json) {
  const auto bits = [](const Json& text) {
    return std::stoull(text.get<std::string>(), nullptr, 16);
  };
  ChunkPosition chunk = {.values = json.at("values").get<int64_t>(),
                         .answer = json.at("answer").get<int64_t>(),
                         .chain = bits(json.at("chain"))};
  for (const Json& parts : json.at("counted")) {
    chunk.counted.push_back({.replica = {parts.at(0).get<int64_t>()},
                             .newest = parts.at(1).get<int64_t>(),
                             .before = bits(parts.at(2))});
  }
  return chunk;
}

// Whether a worker that has this many weights can have cut them like this.
bool is_cut_of(const std::vector<ChunkPosition>& chunks, int64_t weights) {
  const bool sound = std::ranges::all_of(chunks, [&](const ChunkPosition& chunk) {
    return is_sound(chunk) && chunk.values <= weights;
  });
  return sound && (chunks.empty() || values_of(chunks) == weights);
}

// What its own name says, in a shard.
std::optional<SentSteps> sent_of(const NamedTensor& named) {
  SentSteps sent = {.payload = named.tensor};
  const std::string place = named.name.substr(kSent.size());
  const char* const end = place.data() + place.size();
  const auto [dot, bad_chunk] = std::from_chars(place.data(), end, sent.chunk);
  if (bad_chunk != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [last, bad_number] = std::from_chars(dot + 1, end, sent.number);
  const bool sound =
      bad_number == std::errc() && last == end && sent.chunk >= 0 && is_count(sent.number);
  return sound ? std::optional(sent) : std::nullopt;
}

std::string place_of(const Shard& shard) {
  Json chunks = Json::array();
  for (const ChunkPosition& chunk : shard.chunks) chunks.push_back(chunk_json(chunk));
  return Json{{"replica", shard.worker.replica.value},
              {"stage", shard.worker.stage.value},
              {"update", shard.update},
              {"updates", shard.optimizer.updates},
              {"momentum_product", shard.optimizer.momentum_product},
              {"rounds", shard.rounds},
              {"chunks", chunks}}
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
    if (!std::ranges::all_of(shard.rounds, is_count)) return false;
    if (!json.contains("chunks")) return true;  // of an earlier version
    for (const Json& chunk : json.at("chunks")) shard.chunks.push_back(parse_chunk(chunk));
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
  for (const SentSteps& sent : shard.sent) {
    file.tensors.push_back(
        {fmt::format("{}{}.{}", kSent, sent.chunk, sent.number), sent.payload.contiguous()});
  }
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
    } else if (named.name.starts_with(kSent)) {
      const std::optional<SentSteps> sent = sent_of(named);
      if (!sent) return no_shard(path);
      shard.sent.push_back(*sent);
    } else {
      shard.optimizer.buffers.emplace_back(std::move(named.name), std::move(named.tensor));
    }
  }
  if (!shard.weights.defined() || shard.weights.dim() != 1) return no_shard(path);
  const bool sound = is_cut_of(shard.chunks, shard.weights.numel()) &&
                     std::ranges::all_of(shard.sent, [&](const SentSteps& sent) {
                       return sent.chunk < std::ssize(shard.chunks);
                     });
  if (!sound) return no_shard(path);
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
  ShardWeights mapped{.tensors = std::move(tensors), .weights = std::move(weights)};
  Shard place;
  const auto metadata = mapped.tensors.metadata().find(kShardPlace);
  if (metadata == mapped.tensors.metadata().end() || !read_place(metadata->second, place)) {
    return no_shard(path);
  }
  if (!is_cut_of(place.chunks, mapped.weights.numel())) return no_shard(path);
  mapped.chunks = std::move(place.chunks);
  mapped.common = mapped.tensors.find(kCommonBuffer);
  return mapped;
}

}  // namespace leeway
