// SentencePiece models, through the library. Not exact: a model's normalizer may fold characters
// and spaces, and broken UTF-8 becomes U+FFFD; ids are those of the `sentencepiece` package.
#pragma once

#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

// An error where this build has no SentencePiece.
Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const Path& path);

}  // namespace leeway
