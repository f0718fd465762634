// A tokenizer in a data or run folder: leeway_tokenizer.json has its kind and hash; the tokenizer
// itself is next to it under the name that other programs look for.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizers/tokenizer.h"

namespace leeway {

inline constexpr std::string_view kSavedJson = "tokenizer.json";            // byte-level BPE
inline constexpr std::string_view kSavedSentencePiece = "tokenizer.model";  // SentencePiece

// Writes `content` under `name` (nothing if the name is empty), then the description.
Status save_tokenizer(const Tokenizer& tokenizer, const Path& folder, std::string_view name,
                      std::string_view content);

// Loads it back; fails if the files have changed since.
Result<std::unique_ptr<Tokenizer>> load_saved_tokenizer(const Path& folder);

}  // namespace leeway
