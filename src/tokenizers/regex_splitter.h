// Any split pattern of a Hugging Face tokenizer.json, through PCRE2.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tokenizers/splitter.h"

namespace leeway {

// Pieces are the matches of `pattern` and what lies between them. A byte that is no part of a
// UTF-8 character is matched as U+FFFD, a symbol. An error where this build has no PCRE2.
//
// The safe cuts are before a ' ' or '\n' that follows an ASCII letter or digit: the patterns in
// use (GPT-2, Llama 3, Qwen, GPT-4) let no match run across it, by the argument of
// gpt2_splitter.h. A pattern that looks back, or that fails this on sample texts, gets none.
Result<std::unique_ptr<Splitter>> make_regex_splitter(const std::string& pattern);

}  // namespace leeway
