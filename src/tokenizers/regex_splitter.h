// Any split pattern of a Hugging Face tokenizer.json, through PCRE2.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tokenizers/splitter.h"

namespace leeway {

// Pieces are the matches of `pattern` and the text between them. A byte that is not part of a UTF-8
// character is matched as U+FFFD, a symbol. Fails if this build has no PCRE2. A pattern that
// backtracks without end, such as (a+)+$, ends the walk with an error.
//
// Safe cuts are before a ' ' or '\n' that follows an ASCII letter or digit: with the patterns in
// use (GPT-2, Llama 3, Qwen, GPT-4) no match crosses one, for the reason given in gpt2_splitter.h.
// A pattern that looks back, or that fails this on sample texts, gets no cuts.
Result<std::unique_ptr<Splitter>> make_regex_splitter(const std::string& pattern);

}  // namespace leeway
