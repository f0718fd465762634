// A command's result on standard output. Never throws: a reader that has gone away does not end a
// program that has outlived it.
#pragma once

#include <cstdio>
#include <string_view>

namespace leeway::cli {

inline void print_result(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace leeway::cli
