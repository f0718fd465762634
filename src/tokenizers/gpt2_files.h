// GPT-2's own two files: the merges (vocab.bpe or merges.txt) and the ids (encoder.json or
// vocab.json).
#pragma once

#include "base/files.h"
#include "base/result.h"
#include "tokenizers/byte_pair_model.h"

namespace leeway {

Result<BytePairModel> read_gpt2_folder(const Path& folder);

}  // namespace leeway
