// SentencePiece models, through the library, with the ids of the `sentencepiece` package. Decoding
// is not exact: a model's normalizer may fold characters and spaces, and broken UTF-8 becomes
// U+FFFD.
#pragma once

#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

// Fails if this build has no SentencePiece.
Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const Path& path);

}  // namespace leeway
