// Names of folders.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace leeway {

// "async + sparse" -> "async_sparse": needs no quotes in any shell and never names a hidden file.
// `otherwise` is returned if nothing is left.
std::string plain_name(std::string_view text, std::string_view otherwise);

// As a shell needs it in a command: out/r1, 'my runs/r1'.
std::string shell_word(std::string_view text);

// out/r1/ -> out/r1, so that filename() is the folder's name.
inline Path without_slash(const Path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace leeway
