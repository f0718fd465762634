// A command's result on standard output, or its failure on standard error. Never throws: a reader
// that has gone away does not end a program that has outlived it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "base/result.h"
#include "terminal/progress.h"
#include "terminal/say.h"

namespace leeway::cli {

inline void print_result(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Nothing, if the message is empty: it has been printed already.
inline void print_failure(const Error& error) {
  if (error.message.empty()) return;
  const bool color = colors_wanted();
  print_error(fmt::format("{}leeway: {}{}\n", color ? "\033[31m" : "", error.message,
                          color ? "\033[0m" : ""));
}

}  // namespace leeway::cli
