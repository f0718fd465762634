// Hugging Face's tokenizer.json, if its model is byte-level BPE.
//
// Supported: pre_tokenizer ByteLevel, or a Sequence of at most one Split (a regular expression,
// Isolated) and ByteLevel; added tokens that are special; ignore_merges. Ignored, because `data
// prepare` sets document markers itself: post_processor, truncation, padding. Anything else that
// would change ids (a normalizer, dropout, Metaspace, ...) is an error that names it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "tokenizers/byte_pair_model.h"

namespace leeway {

Result<BytePairModel> read_hf_file(const Path& path);
// `where` names the file in messages.
Result<BytePairModel> parse_hf(const std::string& text, const std::string& where);

// Formats a tokenizer.json that read_hf_file and the `tokenizers` package read as this model.
std::string format_hf(const BytePairModel& model);

// {"token": id, ...}
Result<TokenNames> read_token_names(const nlohmann::json& json, const std::string& where);

}  // namespace leeway
