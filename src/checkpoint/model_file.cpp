#include "checkpoint/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "averaging/merge.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"
#include "model/hugging_face.h"

namespace leeway {
namespace {

// The names, types and shapes of all stages, without any weights.
SafetensorsHeader model_header(const ModelShape& shape, const std::vector<StageSlice>& slices,
                               at::ScalarType dtype) {
  SafetensorsHeader header = {.entries = {}, .metadata = {{"format", "pt"}}};
  for (const StageSlice& slice : slices) {
    const int64_t count = parameter_count(slice_layout(shape, slice));
    const at::Tensor no_values = at::empty({count}, at::TensorOptions(at::kMeta).dtype(dtype));
    for (const auto& [name, tensor] : to_hugging_face(shape, slice, no_values))
      header.entries.push_back({.name = name, .dtype = dtype, .shape = tensor.sizes().vec()});
  }
  return header;
}

// Replicas that do not wait for each other may have saved the common model after different answers:
// the newest of each chunk counts.
at::Tensor common_of(const std::vector<ShardWeights>& shards) {
  at::Tensor common = shards.front().common.clone();
  int64_t begin = 0;
  for (size_t chunk = 0; chunk < shards.front().chunks.size(); ++chunk) {
    const auto newest = std::ranges::max_element(
        shards, {}, [&](const ShardWeights& shard) { return shard.chunks[chunk].answer; });
    const int64_t values = shards.front().chunks[chunk].values;
    common.narrow(0, begin, values).copy_(newest->common.narrow(0, begin, values));
    begin += values;
  }
  return common;
}

// Whether all have a copy of the common model, cut in the same way.
bool have_common(const std::vector<ShardWeights>& shards) {
  const std::vector<ChunkPosition>& first = shards.front().chunks;
  return values_of(first) == shards.front().weights.numel() &&
         std::ranges::all_of(shards, [&](const ShardWeights& shard) {
           return shard.common.defined() && shard.common.sizes() == shard.weights.sizes() &&
                  same_cut(shard.chunks, first);
         });
}

Result<at::Tensor> model_of_stage(const std::vector<Path>& paths, int64_t count) {
  std::vector<ShardWeights> shards;
  std::vector<at::Tensor> weights;
  for (const Path& path : paths) {
    LEEWAY_ASSIGN(ShardWeights shard, map_shard_weights(path));
    if (shard.weights.numel() != count) {
      return Error{fmt::format("{} has {} weights, but its stage has {}; check the disk",
                               path.string(), shard.weights.numel(), count)};
    }
    weights.push_back(shard.weights);
    shards.push_back(std::move(shard));
  }
  if (have_common(shards)) return common_of(shards);
  return weights.size() == 1 ? weights.front().clone() : mean_of(weights);
}

}  // namespace

Result<uint64_t> write_model(const Path& path, const ModelShape& shape,
                             const std::vector<std::vector<Path>>& shards) {
  const auto slices = cut_into_stages(shape, std::ssize(shards));
  LEEWAY_ASSIGN(const ShardWeights any, map_shard_weights(shards.front().front()));
  LEEWAY_ASSIGN(TensorStream file,
                TensorStream::create(path, model_header(shape, slices, any.weights.scalar_type())));
  StreamingHash hash;
  for (size_t s = 0; s < slices.size(); ++s) {
    const int64_t count = parameter_count(slice_layout(shape, slices[s]));
    LEEWAY_ASSIGN(const at::Tensor model, model_of_stage(shards[s], count));
    hash.add({static_cast<const std::byte*>(model.const_data_ptr()), model.nbytes()});
    for (const auto& [name, tensor] : to_hugging_face(shape, slices[s], model))
      LEEWAY_TRY(file.write(tensor));
  }
  LEEWAY_TRY(file.commit());
  return hash.digest();
}

}  // namespace leeway
