#include "checkpoint/model_file.h"

#include <fmt/format.h>

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

Result<at::Tensor> mean_of_stage(const std::vector<Path>& shards, int64_t count) {
  std::vector<ShardWeights> mapped;
  std::vector<at::Tensor> weights;
  for (const Path& path : shards) {
    LEEWAY_ASSIGN(ShardWeights shard, map_shard_weights(path));
    if (shard.weights.numel() != count) {
      return Error{fmt::format("{} has {} weights, but its stage has {}; check the disk",
                               path.string(), shard.weights.numel(), count)};
    }
    weights.push_back(shard.weights);
    mapped.push_back(std::move(shard));
  }
  return weights.size() == 1 ? weights.front().clone() : mean_of(weights);
}

}  // namespace

Result<uint64_t> write_mean_model(const Path& path, const ModelShape& shape,
                                  const std::vector<std::vector<Path>>& shards) {
  const auto slices = cut_into_stages(shape, std::ssize(shards));
  LEEWAY_ASSIGN(const ShardWeights any, map_shard_weights(shards.front().front()));
  LEEWAY_ASSIGN(TensorStream file,
                TensorStream::create(path, model_header(shape, slices, any.weights.scalar_type())));
  StreamingHash hash;
  for (size_t s = 0; s < slices.size(); ++s) {
    const int64_t count = parameter_count(slice_layout(shape, slices[s]));
    LEEWAY_ASSIGN(const at::Tensor mean, mean_of_stage(shards[s], count));
    hash.add({static_cast<const std::byte*>(mean.const_data_ptr()), mean.nbytes()});
    for (const auto& [name, tensor] : to_hugging_face(shape, slices[s], mean))
      LEEWAY_TRY(file.write(tensor));
  }
  LEEWAY_TRY(file.commit());
  return hash.digest();
}

}  // namespace leeway
