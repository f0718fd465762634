// model.safetensors from shards: the common model, or the mean of the replicas, as Hugging Face
// opens it, made stage by stage. Of the whole mesh no more than one stage of it is in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "model/shape.h"

namespace leeway {

// By stage, then by replica. Returns the hash of the model's flat weights.
Result<uint64_t> write_model(const Path& path, const ModelShape& shape,
                             const std::vector<std::vector<Path>>& shards);

}  // namespace leeway
